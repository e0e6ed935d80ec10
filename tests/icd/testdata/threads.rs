// A Rust program, each of whose threads has a signal stack of Rust's own, which is gone
// before the thread's last destructors run: threads that come and go fill buffers and read
// them back, and do so in a destructor too, while signals come, with which Go's runtime
// interrupts threads too.
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::Duration;

type Handle = *mut c_void;

#[link(name = "OpenCL")]
extern "C" {
    fn clGetPlatformIDs(n: u32, platforms: *mut Handle, count: *mut u32) -> i32;
    fn clGetPlatformInfo(p: Handle, what: u32, room: usize, out: *mut c_void, size: *mut usize) -> i32;
    fn clGetDeviceIDs(p: Handle, kind: u64, n: u32, devices: *mut Handle, count: *mut u32) -> i32;
    fn clCreateContext(props: *const isize, n: u32, devices: *const Handle, notify: *const c_void, user: *mut c_void, err: *mut i32) -> Handle;
    fn clCreateCommandQueueWithProperties(c: Handle, d: Handle, props: *const u64, err: *mut i32) -> Handle;
    fn clCreateBuffer(c: Handle, flags: u64, size: usize, host: *mut c_void, err: *mut i32) -> Handle;
    fn clEnqueueFillBuffer(q: Handle, m: Handle, pattern: *const c_void, len: usize, at: usize, size: usize, n: u32, wait: *const Handle, event: *mut Handle) -> i32;
    fn clEnqueueReadBuffer(q: Handle, m: Handle, blocking: u32, at: usize, size: usize, out: *mut c_void, n: u32, wait: *const Handle, event: *mut Handle) -> i32;
    fn clReleaseMemObject(m: Handle) -> i32;
    fn clReleaseCommandQueue(q: Handle) -> i32;
    fn clReleaseContext(c: Handle) -> i32;
}

const SIGURG: i32 = 23;
extern "C" {
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, signal: i32) -> i32;
}

fn ok(status: i32) {
    assert_eq!(status, 0);
}

// ENDING are the threads whose destructors run.
static ENDING: Mutex<Vec<usize>> = Mutex::new(Vec::new());

// Held is a buffer that the thread's last destructors use and release.
struct Held {
    queue: usize,
    buffer: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let thread = unsafe { pthread_self() };
        ENDING.lock().unwrap().push(thread);
        for i in 0..300 {
            fill(self.queue, self.buffer as Handle, i);
        }
        ok(unsafe { clReleaseMemObject(self.buffer as Handle) });
        ENDING.lock().unwrap().retain(|t| *t != thread);
    }
}

thread_local!(static HELD: RefCell<Option<Held>> = RefCell::new(None));

fn platform(part: &str) -> Handle {
    unsafe {
        let mut all = [null_mut(); 16];
        let mut n = 0;
        ok(clGetPlatformIDs(16, all.as_mut_ptr(), &mut n));
        for p in &all[..n as usize] {
            let mut name = [0u8; 256];
            let mut size = 0;
            ok(clGetPlatformInfo(*p, 0x0902, 256, name.as_mut_ptr().cast(), &mut size)); // CL_PLATFORM_NAME
            if String::from_utf8_lossy(&name[..size]).contains(part) {
                return *p;
            }
        }
    }
    panic!("no platform is called {part}");
}

const WORDS: usize = 64 << 10;

fn create(context: usize) -> Handle {
    let mut err = 0;
    let m = unsafe { clCreateBuffer(context as Handle, 1, WORDS * 4, null_mut(), &mut err) }; // CL_MEM_READ_WRITE
    ok(err);
    m
}

fn fill(queue: usize, m: Handle, pattern: u32) {
    let mut out = vec![0u32; WORDS];
    unsafe {
        ok(clEnqueueFillBuffer(queue as Handle, m, (&pattern as *const u32).cast(), 4, 0, WORDS * 4, 0, null(), null_mut()));
        ok(clEnqueueReadBuffer(queue as Handle, m, 1, 0, WORDS * 4, out.as_mut_ptr().cast(), 0, null(), null_mut()));
    }
    assert!(out.iter().all(|w| *w == pattern), "a wrong word");
}

fn work(context: usize, queue: usize, seed: u32) {
    HELD.with(|h| *h.borrow_mut() = Some(Held { queue, buffer: create(context) as usize }));
    for i in 0..100 {
        let m = create(context);
        fill(queue, m, seed * 1000 + i);
        ok(unsafe { clReleaseMemObject(m) });
    }
}

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    let p = platform(&part);
    let (mut devices, mut n, mut err) = ([null_mut(); 8], 0, 0);
    unsafe {
        ok(clGetDeviceIDs(p, 0xffff_ffff, 8, devices.as_mut_ptr(), &mut n)); // CL_DEVICE_TYPE_ALL
        let n = n.min(8) as usize;
        let context = clCreateContext(null(), n as u32, devices.as_ptr(), null(), null_mut(), &mut err);
        ok(err);
        let queues: Vec<usize> = (0..n).map(|i| {
            let q = clCreateCommandQueueWithProperties(context, devices[i], null(), &mut err) as usize;
            ok(err);
            q
        }).collect();
        let c = context as usize;
        static STOP: AtomicBool = AtomicBool::new(false);
        let sender = std::thread::spawn(|| {
            while !STOP.load(SeqCst) {
                for t in ENDING.lock().unwrap().iter() {
                    ok(pthread_kill(*t, SIGURG));
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        for round in 0..4u32 {
            let threads: Vec<_> = (0..4u32).map(|t| {
                let q = queues[t as usize % n];
                std::thread::spawn(move || work(c, q, round * 4 + t + 1))
            }).collect();
            for t in threads {
                t.join().unwrap();
            }
        }
        STOP.store(true, SeqCst);
        sender.join().unwrap();
        for q in queues {
            ok(clReleaseCommandQueue(q as Handle));
        }
        ok(clReleaseContext(context));
    }
    println!("OK");
}
