//! How busy the cores are that this process may use, behind the engine's port: those of the machine, and the share of them that a
//! control group grants. Linux counts both; elsewhere nothing is known, and the cores count as free.

use std::fs;
use std::path::PathBuf;

use hopcache_core::cores::{BusyCores, CoreTime};
use hopcache_core::limits::CORES_LOOK_MS;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Clock, Cores};
use parking_lot::Mutex;

use crate::clock::SystemClock;

/// The cores of this machine, and those of this process' control group.
pub struct SystemCores {
    clock: SystemClock,
    /// The group's directory.
    group: Option<PathBuf>,
    looked: Mutex<Looked>,
}

/// What was read last.
#[derive(Default)]
struct Looked {
    at: MonoTime,
    machine: BusyCores,
    group: BusyCores,
    are_busy: bool,
}

impl SystemCores {
    /// Nothing is read before the first question.
    #[must_use]
    pub fn new(clock: SystemClock) -> Self {
        let of_process = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self { clock, group: group_of(&of_process), looked: Mutex::default() }
    }

    fn look(&self, looked: &mut Looked, now: MonoTime) {
        let machine = fs::read_to_string("/proc/stat").ok().and_then(|stat| machine_time(&stat));
        let of_machine = machine.is_some_and(|time| looked.machine.count(time));
        let of_group = self.group_time(now).is_some_and(|time| looked.group.count(time));
        looked.at = now;
        looked.are_busy = of_machine || of_group;
    }

    fn group_time(&self, now: MonoTime) -> Option<CoreTime> {
        let read = |file| fs::read_to_string(self.group.as_ref()?.join(file)).ok();
        let granted_us = granted_us(&read("cpu.max")?, now)?;
        Some(CoreTime { busy: used_us(&read("cpu.stat")?)?, all: granted_us })
    }
}

impl Cores for SystemCores {
    fn are_busy(&self) -> bool {
        let now = self.clock.now();
        let mut looked = self.looked.lock();
        if now.since(looked.at) >= Millis(CORES_LOOK_MS) {
            // Linux answers from memory: some 30 µs.
            self.look(&mut looked, now);
        }
        looked.are_busy
    }
}

/// The time of all cores together by `/proc/stat` (proc(5)): what is left over is idle, or waits for a disk.
fn machine_time(stat: &str) -> Option<CoreTime> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the two after them are in the first two.
    let times: Vec<u64> = times.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    let all = times.iter().sum::<u64>();
    let idle = times.get(3)? + times.get(4)?;
    Some(CoreTime { busy: all - idle, all })
}

/// The directory of the process' group by `/proc/self/cgroup` (cgroups(7), version 2).
fn group_of(of_process: &str) -> Option<PathBuf> {
    let path = of_process.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from("/sys/fs/cgroup").join(path))
}

/// The time that `cpu.max` grants until `now`; `None` without a limit.
fn granted_us(cpu_max: &str, now: MonoTime) -> Option<u64> {
    let (quota_us, period_us) = cpu_max.trim().split_once(' ')?;
    let (quota_us, period_us): (u64, u64) = (quota_us.parse().ok()?, period_us.parse().ok()?);
    let granted_us = u128::from(now.0) * u128::from(quota_us) / u128::from(period_us.max(1));
    u64::try_from(granted_us).ok()
}

/// The time that the group has used, by `cpu.stat`.
fn used_us(cpu_stat: &str) -> Option<u64> {
    cpu_stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_counts_are_read() {
        let stat = "cpu  700 100 150 900 100 0 40 10 5 0\ncpu0 1 2 3 4\nintr 7";
        assert_eq!(machine_time(stat), Some(CoreTime { busy: 1_000, all: 2_000 }));
        assert_eq!(machine_time("cpu  7 1"), None);
        assert_eq!(machine_time(""), None);
        let group = |text| group_of(text).map(|path| path.display().to_string());
        assert_eq!(group("0::/\n").as_deref(), Some("/sys/fs/cgroup/"));
        let service = group("12:cpu:/old\n0::/system.slice/hopcache.service\n");
        assert_eq!(service.as_deref(), Some("/sys/fs/cgroup/system.slice/hopcache.service"));
        assert_eq!(group("12:cpu:/old\n"), None);
        let second = MonoTime(1_000_000);
        assert_eq!(granted_us("150000 100000\n", second), Some(1_500_000));
        assert_eq!(granted_us("max 100000\n", second), None);
        assert_eq!(used_us("usage_usec 42\nuser_usec 40\n"), Some(42));
    }

    /// A machine whose cores all work is busy within two looks; on Linux only, elsewhere nothing is known.
    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_tells() {
        let cores = SystemCores::new(SystemClock::start());
        let mut looked = Looked::default();
        cores.look(&mut looked, cores.clock.now());
        assert!(looked.machine.count(CoreTime { busy: u64::MAX, all: u64::MAX }), "it was read before");
    }
}
