"""The terminal program on a pseudo-terminal of our own: crash, hang-up, rest, a slow reader. argv: the program."""
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time

ARGS = ["tui", "--no-resume", "--model", "deepseek-v2-lite", "--cluster", "8xh800"]
LIMIT = 20.0
failed = 0


def check(what, true):
    global failed
    if not true:
        failed += 1
        print("FAILED:", what)


class Session:
    def __init__(self, env={}):
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(self.slave, fd)
            os.environ["TERM"] = "xterm-256color"
            os.environ.update(env)
            os.execv(sys.argv[1], [sys.argv[1]] + ARGS)
        check("the ranking appears", b"DualPipe" in self.read_until(b"DualPipe"))
        self.rest()

    def read_until(self, mark):
        out, end = b"", time.monotonic() + LIMIT
        while mark not in out and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                out += os.read(self.master, 65536)
        return out

    def rest(self, quiet=0.3):
        """Reads until nothing has come for a while."""
        out = b""
        while select.select([self.master], [], [], quiet)[0]:
            try:
                out += os.read(self.master, 65536)
            except OSError:
                break
        return out

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def end(self, seconds=LIMIT):
        """Exit status, None when it is still there after that long."""
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return status
            select.select([], [], [], 0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None

    def wakeups(self):
        """Of all threads."""
        n = 0
        for task in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/status" % (self.pid, task)) as f:
                n += [int(line.split()[1]) for line in f if line.startswith("voluntary")][0]
        return n


for sig in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
    s = Session()
    os.kill(s.pid, sig)
    out = s.rest()
    check("ends on %s" % sig.name, s.end() is not None)
    check("terminal restored after %s" % sig.name, s.restored() and b"\x1b[?1049l" in out)

s = Session()
before = s.wakeups()
select.select([], [], [], 2.0)
check("at rest nothing wakes", s.wakeups() - before <= 1)
os.write(s.master, b"j")
check("a keypress costs little", len(s.rest()) < 4096)
os.write(s.master, b"\x1b")
os.write(s.master, b"q")
check("q leaves with 0", s.end() == 0)
check("terminal restored after q", s.restored())

# With the node's tab in sight: one wakeup each time the driver is asked, and none for the screen while nothing changes.
s = Session({"LD_LIBRARY_PATH": os.environ["FAKE_NVML"]})
os.write(s.master, b":side node\r")
check("the node is shown", b"H800" in s.read_until(b"H800"))
s.rest()
before = s.wakeups()
select.select([], [], [], 4.0)
check("one wakeup a refresh: %d in 4 s" % (s.wakeups() - before), s.wakeups() - before <= 5)
os.write(s.master, b"J")
s.rest(1.2)
before = s.wakeups()
select.select([], [], [], 2.0)
check("none with the tab hidden", s.wakeups() - before == 0)
os.write(s.master, b"q")
check("q leaves with the node watched", s.end() == 0)

s = Session()
os.close(s.slave)
os.close(s.master)
check("leaves at once when the terminal goes away", s.end(2.0) is not None)

# 20 kB/s: keys are answered in time, and what waits behind the last key is a frame or two, not all of them.
s = Session()
for _ in range(60):
    os.write(s.master, b"\x06")
    end = time.monotonic() + 0.05
    if select.select([s.master], [], [], 0.05)[0]:
        os.read(s.master, 1000)
    select.select([], [], [], max(0.0, end - time.monotonic()))
os.write(s.master, b"q")
behind = 0
while True:
    pid, status = os.waitpid(s.pid, os.WNOHANG)
    if pid:
        break
    if select.select([s.master], [], [], 0.01)[0]:
        behind += len(os.read(s.master, 1000))
check("no backlog of frames: %d bytes" % behind, behind < 40000)


class Link:
    """A line between the program and a terminal that answers status requests: `rate` bytes/s, `delay` s each way.
    Like an ssh server it takes from the program whatever there is; what has not arrived yet is in flight."""

    def __init__(self, session, rate, delay):
        self.s, self.rate, self.delay = session, rate, delay
        self.coming, self.answers, self.free, self.seen, self.asked = [], [], 0.0, b"", 0
        self.most = self.frames = 0  # bytes and ends of frames in flight, at most

    def step(self, until):
        """Until a time, or until nothing is on its way (until=None)."""
        quiet = time.monotonic() + 1.0
        while True:
            now = time.monotonic()
            while self.coming and self.coming[0][0] <= now:
                self.seen += self.coming.pop(0)[1]
                while self.seen.count(b"\x1b[5n") > self.asked:
                    self.asked += 1
                    self.answers.append(now + self.delay)
            while self.answers and self.answers[0] <= now:
                self.answers.pop(0)
                os.write(self.s.master, b"\x1b[0n")
                quiet = now + 1.0
            if self.coming:
                quiet = now + 1.0
            if now >= (quiet if until is None else until):
                return
            due = [until if until is not None else quiet] + [x[0] for x in self.coming[:1]] + self.answers[:1]
            if select.select([self.s.master], [], [], max(0.0, min(due) - now))[0]:
                chunk = os.read(self.s.master, 65536)
                self.free = max(time.monotonic(), self.free) + len(chunk) / self.rate
                self.coming.append((self.free + self.delay, chunk))
                flying = b"".join(x[1] for x in self.coming)
                self.most = max(self.most, len(flying))
                self.frames = max(self.frames, flying.count(b"\x1b[5n"))

    def key(self, key, pause):
        os.write(self.s.master, key)
        self.step(time.monotonic() + pause)


# The same, at 200 ms there and back and with a line that buffers all it is given: only the terminal's answers can tell
# the program how far it has got.
s = Session()
os.write(s.master, b"\x1b[0n")  # to the question after the first frame
s.rest()
link = Link(s, 20000, 0.1)
frame = 0
for key in (b"\x06", b"\x06", b"G", b"g"):
    link.most = 0
    os.write(s.master, key)
    link.step(None)
    frame = max(frame, link.most)
link.most = 0
for _ in range(60):
    link.key(b"\x06", 0.05)
check("two frames in flight: %d" % link.frames, 1 <= link.frames <= 2)
check("two frames in flight: %d bytes, a frame is %d" % (link.most, frame), 1000 < frame and link.most < 3 * frame)
os.write(s.master, b"g")
pressed = time.monotonic()
link.step(None)
took = time.monotonic() - 1.0 - pressed
check("a key is answered behind two frames at most: %.2f s" % took, took < 3 * frame / 20000 + 2 * 0.2 + 0.5)
os.write(s.master, b"q")
link.step(time.monotonic() + 0.5)
check("q leaves with 0 over the link", s.end() == 0)
check("terminal restored over the link", s.restored())
print("in flight: %d frames, %d bytes (a frame is %d); last key answered after %.2f s" % (link.frames, link.most, frame, took))
print("failed" if failed else "passed")
sys.exit(1 if failed else 0)
