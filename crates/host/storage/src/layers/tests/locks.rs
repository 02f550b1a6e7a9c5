//! Locks of other processes.

use super::*;

/// A lock that a process holds on a file or folder until its standard input is closed.
struct Held(Child);

impl Held {
    /// Returns when it has the lock. The host lists it as that of process 99, `iodyno`.
    fn on(path: &Path, world: &World) -> Held {
        let mut holder = Command::new("flock");
        holder.arg(path).args(["-c", "echo held; cat"]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        let output = holder.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        let file = path.metadata().unwrap();
        let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
        let of = format!("{:02x}:{:02x}:{}", device.0, device.1, file.ino());
        let locks = format!("1: FLOCK  ADVISORY  WRITE 99 {of} 0 EOF\n");
        world.host.write("proc/locks", &locks);
        world.host.write("proc/99/comm", "iodyno\n");
        Held(holder)
    }

    fn release(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn a_lock_of_another_process_is_waited_for_until_it_is_released() {
    let world = World::new();
    let maker = world.maker();
    let folder = maker.folders.journals.clone();
    fs::create_dir_all(&folder).unwrap();
    let held = RefCell::new(None);
    let progress = RefCell::new(Vec::new());
    // The holder ends once it is said who is waited for.
    let tell = |what: &str| {
        if what.starts_with("waiting") {
            progress.borrow_mut().push(what.to_owned());
            if let Some(held) = held.take() {
                Held::release(held);
            }
        }
    };
    let waiting = |path: &Path| {
        let path = path.display();
        vec![format!(
            "waiting for process 99 (iodyno), which keeps `{path}` locked"
        )]
    };
    let (zfs, journal) = (provisions(&world).remove(2), folder.join("t-1.jsonl"));
    held.replace(Some(Held::on(&folder, &world)));
    let maker = Maker {
        progress: &tell,
        ..world.maker()
    };
    maker.provision(&request(zfs), DEAD).unwrap();
    assert_eq!(progress.take(), waiting(&folder));
    for locked in [&folder, &journal] {
        held.replace(Some(Held::on(locked, &world)));
        maker.change(TOKEN, StorageChange::EmptyCaches).unwrap();
        assert_eq!(progress.take(), waiting(locked));
    }
    // A stop ends the wait.
    let holder = Held::on(&folder, &world);
    let stopping = Maker {
        stop: &|| true,
        ..world.maker()
    };
    let stopped = stopping.change(TOKEN, StorageChange::EmptyCaches);
    let stopped = stopped.unwrap_err();
    assert!(stopped[0].message.starts_with("stopped"), "{stopped:?}");
    held.replace(Some(holder));
    assert_eq!(maker.tear_down(TOKEN).faults, []);
    assert_eq!(progress.take(), waiting(&folder));
    assert!(journals(&world).is_empty());
}
