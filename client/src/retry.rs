//! Exponential back-off with jitter: pure, so that tests need neither a clock nor luck.

use rand::Rng;
use std::time::Duration;

/// The pauses between tries: doubling from `initial` to `max`, each off by up to a fifth either way, so that clients that failed together
/// don't come back together (KIP-580).
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// The pause after one more failure.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> Duration {
        let doubled = self.initial.saturating_mul(1u32.checked_shl(self.failures.min(20)).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        doubled.min(self.max).mul_f64(rng.random_range(0.8..1.2))
    }

    /// Starts over after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The next pause of `backoff`, by the thread's random numbers.
pub(crate) fn pause(backoff: &mut Backoff) -> Duration {
    backoff.next(&mut rand::rng())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    #[test]
    fn doubles_up_to_the_maximum_and_starts_over() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        let pauses: Vec<u128> = (0..12).map(|_| backoff.next(&mut rng).as_millis()).collect();
        for (i, pause) in pauses.iter().enumerate() {
            let plain = (50u128 << i.min(10)).min(1000);
            assert!(*pause >= plain * 8 / 10 && *pause <= plain * 12 / 10, "pause {i} is {pause} ms, about {plain}");
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= Duration::from_millis(60));
    }
}
