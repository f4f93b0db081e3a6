// franz-go: every partition from its start to its end without a group, PollFetches, CRCs checked.
// BOOTSTRAP TOPIC filter|visit PARTITIONS (which it asks for itself)
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var needle = []byte(`"event":"purchase"`)

func main() {
	ctx, topic, visit := context.Background(), os.Args[2], os.Args[3] == "visit"
	admin := must(kgo.NewClient(kgo.SeedBrokers(os.Args[1])))
	ends := must(kadm.NewClient(admin).ListEndOffsets(ctx, topic))
	starts, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			starts[o.Partition], left[o.Partition] = kgo.NewOffset().AtStart(), o.Offset
		}
	})
	admin.Close()
	client := must(kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.FetchMaxBytes(50<<20),
		kgo.FetchMaxPartitionBytes(4<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
	))
	var records, valueBytes, hits int64
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) { panic(err) })
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				records++
				valueBytes += int64(len(r.Value))
				if visit && isWanted(r) || bytes.Contains(r.Value, needle) {
					hits++
				}
			}
			if n := len(p.Records); n > 0 && p.Records[n-1].Offset+1 >= left[p.Partition] {
				delete(left, p.Partition)
			}
		})
	}
	fmt.Printf("{\"records\":%d,\"valueBytes\":%d,\"hits\":%d}\n", records, valueBytes, hits)
}

// The conditions of topics.py on key, headers and timestamp.
func isWanted(r *kgo.Record) bool {
	wanted := string(r.Key) == "user-99999999999"
	for _, h := range r.Headers {
		wanted = wanted || h.Key == "source" && string(h.Value) == "fax" || h.Key == "trace" && string(h.Value) == "ffffffffffffffff"
	}
	return wanted || r.Timestamp.UnixMilli() < 1764000000010
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
