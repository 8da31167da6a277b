//! A process and all its descendants, from `/proc`.

use std::collections::HashMap;

/// `root` and its living descendants. Zombies are not counted: they use nothing and wait for their parent.
pub fn members(root: i32) -> Vec<i32> {
    let Ok(processes) = procfs::process::all_processes() else { return vec![root] };
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in processes.flatten().filter_map(|process| process.stat().ok()) {
        if stat.state != 'Z' {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
    }
    let (mut members, mut next) = (vec![root], 0);
    while next < members.len() {
        if let Some(found) = children.get(&members[next]) {
            members.extend(found);
        }
        next += 1;
    }
    members
}

#[cfg(test)]
mod tests {
    use super::members;

    #[test]
    fn children_and_grandchildren_belong_to_the_tree() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().expect("sh starts");
        let me = std::process::id() as i32;
        let grown = crate::clock::wait_until(std::time::Duration::from_secs(20), || {
            members(child.id() as i32).len() == 2 && members(me).len() >= 3
        });
        let tree = members(child.id() as i32);
        for pid in tree.iter().rev().filter_map(|pid| rustix::process::Pid::from_raw(*pid)) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        child.wait().unwrap();
        assert!(grown, "{tree:?}");
        assert_eq!(members(child.id() as i32), [child.id() as i32]);
    }
}
