//! Queues of files, by the time that they joined. A file is in one of them at most, and leaves from any place.

/// No file.
const END: u32 = u32::MAX;

/// So many queues. Each step takes the same time, however long they are.
#[derive(Debug)]
pub(super) struct Chains<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    bytes: u64,
    queue: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    bytes: u64,
    files: u64,
}

impl<const N: usize> Chains<N> {
    pub(super) fn new() -> Self {
        Chains { links: Vec::new(), ends: [Ends { newest: END, oldest: END, bytes: 0, files: 0 }; N] }
    }

    /// The queue that the file is in.
    pub(super) fn queue_of(&self, file: u32) -> Option<usize> {
        self.links.get(file as usize)?.queue.map(usize::from)
    }

    /// What all files of a queue weigh.
    pub(super) fn bytes(&self, queue: usize) -> u64 {
        self.ends[queue].bytes
    }

    pub(super) fn len(&self, queue: usize) -> u64 {
        self.ends[queue].files
    }

    pub(super) fn bytes_of(&self, file: u32) -> u64 {
        self.links[file as usize].bytes
    }

    pub(super) fn oldest(&self, queue: usize) -> Option<u32> {
        Some(self.ends[queue].oldest).filter(|&file| file != END)
    }

    /// The next file that joined its queue.
    pub(super) fn newer(&self, file: u32) -> Option<u32> {
        Some(self.links[file as usize].newer).filter(|&file| file != END)
    }

    /// A file that is in no queue joins this one.
    pub(super) fn push(&mut self, queue: usize, file: u32, bytes: u64) {
        debug_assert_eq!(self.queue_of(file), None, "a file is in one queue at most");
        if self.links.len() <= file as usize {
            self.links.resize(file as usize + 1, Link { newer: END, older: END, bytes: 0, queue: None });
        }
        let ends = &mut self.ends[queue];
        let older = ends.newest;
        self.links[file as usize] = Link { newer: END, older, bytes, queue: Some(queue as u8) };
        ends.newest = file;
        ends.bytes += bytes;
        ends.files += 1;
        match older {
            END => ends.oldest = file,
            older => self.links[older as usize].newer = file,
        }
    }

    /// A file leaves its queue. Returns its bytes.
    pub(super) fn remove(&mut self, file: u32) -> u64 {
        let Link { newer, older, bytes, queue } = self.links[file as usize];
        let ends = &mut self.ends[usize::from(queue.expect("it is in a queue"))];
        ends.bytes -= bytes;
        ends.files -= 1;
        match newer {
            END => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            END => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        self.links[file as usize].queue = None;
        bytes
    }

    /// A file joins another queue, or its own once more.
    pub(super) fn move_to(&mut self, queue: usize, file: u32) {
        let bytes = self.remove(file);
        self.push(queue, file, bytes);
    }
}
