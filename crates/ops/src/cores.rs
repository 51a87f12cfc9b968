//! How busy the cores are that this process may use, behind the engine's port: those of the machine, and the share of them that a
//! control group grants (version 2). Linux counts both; elsewhere nothing is known, and the cores count as free. Sets of cores
//! (`cpuset`) are not looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::cores::{BusyCores, CoreTime};
use hopcache_core::limits::{CORES_KNOWN_MS, CORES_LOOK_MS};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Clock, Cores};
use parking_lot::Mutex;

use crate::clock::SystemClock;

/// The cores of this machine, and those of the nearest control group with a limit.
pub struct SystemCores {
    clock: SystemClock,
    /// The directories of the process' group, and of those around it.
    groups: Vec<PathBuf>,
    looked: Mutex<Looked>,
    are_busy: AtomicBool,
}

/// What was read last.
#[derive(Default)]
struct Looked {
    at: MonoTime,
    machine: BusyCores,
    group: BusyCores,
}

impl SystemCores {
    /// Nothing is read before the first question.
    #[must_use]
    pub fn new(clock: SystemClock) -> Self {
        let of_process = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            clock,
            groups: groups_of(&of_process),
            looked: Mutex::default(),
            are_busy: AtomicBool::new(false),
        }
    }

    fn look(&self, looked: &mut Looked, now: MonoTime) {
        if now.since(looked.at) >= Millis(CORES_KNOWN_MS) {
            *looked = Looked::default();
        }
        let machine = fs::read_to_string("/proc/stat").ok().and_then(|stat| machine_time(&stat));
        let of_machine = machine.is_some_and(|time| looked.machine.count(time));
        let of_group = self.group_time(now).is_some_and(|time| looked.group.count(time));
        looked.at = now;
        self.are_busy.store(of_machine || of_group, Ordering::Relaxed);
    }

    fn group_time(&self, now: MonoTime) -> Option<CoreTime> {
        let read = |group: &Path, file| fs::read_to_string(group.join(file)).ok();
        let limited = |group: &PathBuf| Some((group.clone(), granted_us(&read(group, "cpu.max")?, now)?));
        let (group, all) = self.groups.iter().find_map(limited)?;
        Some(CoreTime { busy: used_us(&read(&group, "cpu.stat")?)?, all })
    }
}

impl Cores for SystemCores {
    fn are_busy(&self) -> bool {
        let now = self.clock.now();
        // One looks, and nobody waits for it. Linux answers from memory: some 30 µs.
        if let Some(mut looked) = self.looked.try_lock()
            && now.since(looked.at) >= Millis(CORES_LOOK_MS)
        {
            self.look(&mut looked, now);
        }
        self.are_busy.load(Ordering::Relaxed)
    }
}

/// The time of all cores together by `/proc/stat` (proc(5)): what is left over is idle, or waits for a disk.
fn machine_time(stat: &str) -> Option<CoreTime> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the two after them are in the first two.
    let times: Vec<u64> = times.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    let all = times.iter().sum::<u64>();
    // What is nice gives way.
    let free = times.get(1)? + times.get(3)? + times.get(4)?;
    Some(CoreTime { busy: all - free, all })
}

/// The directory of the process' group by `/proc/self/cgroup` (cgroups(7), version 2), and those around it, the nearest first.
fn groups_of(of_process: &str) -> Vec<PathBuf> {
    let Some(path) = of_process.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(path);
    group.ancestors().take_while(|group| group.starts_with(root)).map(Path::to_path_buf).collect()
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
        assert_eq!(machine_time(stat), Some(CoreTime { busy: 900, all: 2_000 }));
        assert_eq!(machine_time("cpu  7 1"), None);
        assert_eq!(machine_time(""), None);
        let groups = |text| groups_of(text).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(groups("0::/\n"), ["/sys/fs/cgroup/"]);
        let service = groups("12:cpu:/old\n0::/a.slice/hopcache.service\n");
        assert_eq!(
            service,
            ["/sys/fs/cgroup/a.slice/hopcache.service", "/sys/fs/cgroup/a.slice", "/sys/fs/cgroup"]
        );
        assert_eq!(groups("12:cpu:/old\n"), [""; 0]);
        let second = MonoTime(1_000_000);
        assert_eq!(granted_us("150000 100000\n", second), Some(1_500_000));
        assert_eq!(granted_us("max 100000\n", second), None);
        assert_eq!(used_us("usage_usec 42\nuser_usec 40\n"), Some(42));
    }

    /// Linux has the files that are looked for.
    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_tells() {
        let cores = SystemCores::new(SystemClock::start());
        let mut looked = Looked::default();
        cores.look(&mut looked, cores.clock.now());
        // Had it read nothing, these would be the first readings.
        let found = [1, 2].map(|share| {
            looked.machine.count(CoreTime { busy: u64::MAX / 3 * share, all: u64::MAX / 3 * share })
        });
        assert_eq!(found, [false, true]);
    }
}
