// librdkafka, its batch call: every partition from the beginning to its end offset, assigned, CRCs checked.
// BOOTSTRAP TOPIC filter|visit PARTITIONS
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

// The few declarations of librdkafka's public interface that are used here: the wheel has the library without its header.
typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct {
    int err;
    void *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *priv;
} rd_kafka_message_t;
typedef struct { // its first fields
    char *topic;
    int32_t partition;
    int64_t offset;
} rd_kafka_topic_partition_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
enum { RD_KAFKA_CONSUMER = 1, RD_KAFKA_OFFSET_BEGINNING = -2 };
rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
int rd_kafka_poll_set_consumer(rd_kafka_t *);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
int rd_kafka_query_watermark_offsets(rd_kafka_t *, const char *, int32_t, int64_t *, int64_t *, int);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *, int *);
int rd_kafka_message_headers(const rd_kafka_message_t *, rd_kafka_headers_t **);
int rd_kafka_header_get_all(const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *);
void rd_kafka_message_destroy(rd_kafka_message_t *);
const char *rd_kafka_version_str(void);

enum { BATCH = 10000 };
static const char NEEDLE[] = "\"event\":\"purchase\"";

static bool equal(const void *bytes, size_t length, const char *text) {
    return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

// The conditions of topics.py on key, headers and timestamp.
static bool wanted(const rd_kafka_message_t *message) {
    bool is_wanted = equal(message->key, message->key_len, "user-99999999999");
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(message, &headers) == 0) {
        const char *name;
        const void *value;
        size_t length;
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &length) == 0; i++) {
            is_wanted |= strcmp(name, "source") == 0 && equal(value, length, "fax");
            is_wanted |= strcmp(name, "trace") == 0 && equal(value, length, "ffffffffffffffff");
        }
    }
    int timestamp_type;
    return is_wanted || rd_kafka_message_timestamp(message, &timestamp_type) < 1764000000010;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *topic = argv[2];
    bool visit = strcmp(argv[3], "visit") == 0;
    int partitions_count = atoi(argv[4]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[1]);
    set(conf, "group.id", "unused");
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.auto.offset.store", "false");
    set(conf, "check.crcs", "true");
    set(conf, "fetch.max.bytes", "52428800");
    set(conf, "max.partition.fetch.bytes", "4194304");
    set(conf, "queued.min.messages", "1000000");
    set(conf, "queued.max.messages.kbytes", "131072");
    set(conf, "fetch.queue.backoff.ms", "10");
    set(conf, "socket.receive.buffer.bytes", "4194304");
    char error[256];
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(partitions_count);
    int64_t left = 0;
    for (int partition = 0; partition < partitions_count; partition++) {
        int64_t start, end;
        if (rd_kafka_query_watermark_offsets(client, topic, partition, &start, &end, 10000) != 0) return 3;
        left += end - start; // neither compaction nor transactions: every offset is a record
        rd_kafka_topic_partition_list_add(partitions, topic, partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    rd_kafka_assign(client, partitions);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    static rd_kafka_message_t *messages[BATCH];
    int64_t records = 0, value_bytes = 0, hits = 0;
    while (records < left) {
        // No more than there are: it waits until it has as many as it was asked for.
        size_t wanted_count = left - records < BATCH ? left - records : BATCH;
        ssize_t got = rd_kafka_consume_batch_queue(queue, 1000, messages, wanted_count);
        for (ssize_t i = 0; i < got; i++) {
            rd_kafka_message_t *message = messages[i];
            if (message->err == 0) {
                records++;
                value_bytes += message->len;
                bool hit = visit && wanted(message);
                hits += hit || memmem(message->payload, message->len, NEEDLE, sizeof NEEDLE - 1) != NULL;
            }
            rd_kafka_message_destroy(message);
        }
    }
    printf("{\"records\":%ld,\"valueBytes\":%ld,\"hits\":%ld,\"version\":\"%s\"}\n", records, value_bytes, hits,
           rd_kafka_version_str());
    fflush(stdout);
    _exit(0); // not through the slow close of the unused group
}
