//! A test that a block device in another world copies none of the data that is read and written. It has a
//! file of its own because the counter of copies belongs to the process.
use interfaces::{
    block::{
        Block, BlockControlServer, BlockError, BlockInfo, BlockProxy, BlockService, BlockSink,
        Operation, Request, Segment,
    },
    call::Caller,
    service,
};
use rt::{
    memory::{Frame, copied_bytes},
    message::Endpoint,
};
use std::sync::{Arc, mpsc};

/// A device that ends every request at once, like one that moves data by itself.
struct Device;

impl Block for Device {
    fn info(&self) -> BlockInfo {
        BlockInfo {
            name: "vda".into(),
            sectors: 1 << 20,
            block_bytes: 512,
            is_read_only: false,
            has_flush: true,
            has_discard: false,
            has_write_zeroes: false,
            max_segments: 61,
            depth: 64,
        }
    }
    fn submit(&self, batch: &mut Vec<Request>, sink: &Arc<dyn BlockSink>) {
        for request in batch.drain(..) {
            // The device sees the client's own frames.
            assert!(request.segments.iter().all(|segment| segment.frame.references() == 2));
            let tag = request.tag;
            drop(request);
            sink.completed(tag, Ok(()));
        }
    }
}

struct Ended(mpsc::Sender<u64>);

impl BlockSink for Ended {
    fn completed(&self, tag: u64, result: Result<(), BlockError>) {
        assert_eq!(result, Ok(()));
        self.0.send(tag).unwrap();
    }
}

#[test]
fn nothing_is_copied_between_client_and_driver() {
    let endpoint = Endpoint::new().unwrap();
    let at = endpoint.clone();
    let served = BlockControlServer::new("vda", Arc::new(BlockService::new(Arc::new(Device))));
    std::thread::spawn(move || service::run(&at, &[served]).unwrap());
    let caller = Caller::new(endpoint, 0, None);
    let proxy = BlockProxy::new(
        caller,
        Box::new(|| panic!("the driver lies")),
        Box::new(interfaces::block::RunningDriver::default),
    )
    .unwrap();
    let (sender, ended) = mpsc::channel();
    let sink: Arc<dyn BlockSink> = Arc::new(Ended(sender));
    let before = copied_bytes();
    for tag in 0..300 {
        let segments = (0..16)
            .map(|_| Segment { frame: Frame::unfilled().unwrap(), offset: 0, length: 4096 })
            .collect();
        let operation = if tag % 2 == 0 { Operation::Read } else { Operation::Write };
        proxy.submit(&mut vec![Request { tag, operation, sector: tag * 128, segments }], &sink);
    }
    let mut tags: Vec<u64> = (0..300).map(|_| ended.recv().unwrap()).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..300));
    assert_eq!(copied_bytes(), before);
}
