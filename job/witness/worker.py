"""The loop every witness runs: a JSON object a line in, a verdict a line out.

Standard output belongs to the verdicts alone: whatever the toolchain prints goes to a buffer, or to /dev/null.
See README.md for the protocol.
"""
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import traceback


# Our files' names as tracebacks show them: a folder, or "<witness NAME>" when moefs carries them.
OURS = (os.path.dirname(os.path.abspath(__file__)) + os.sep,) if "__file__" in globals() else ("<witness ",)


class Refusal(Exception):
    """A refusal that the toolchain expresses without an exception of its own (a rank that never starts)."""


def quiet_stdout():
    """Takes standard output for the protocol; later prints, of C code too, are lost. Returns the protocol's stream."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return out


def base_environment(prefixes):
    """The environment a plan starts from: ours, without what would speak to the toolchain."""
    drop = tuple(prefixes)
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def set_environment(base, extra):
    os.environ.clear()
    os.environ.update(base)
    os.environ.update({k: str(v) for k, v in (extra or {}).items() if v is not None})


def last_place(error, root):
    """file:line of the innermost frame inside the package, or of the innermost frame at all."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if f.filename.startswith(root + os.sep)]
    if not frames:
        return None
    frame = (inside or frames)[-1]
    return "%s:%d" % (frame.filename.removeprefix(root + os.sep), frame.lineno)


def is_ours(filename):
    return filename.startswith(OURS)


def flags_of(argv, marks):
    """What follows the program in a whole command (python, torchrun, ...): all of it when no program is named."""
    start = 0
    for i, word in enumerate(argv):
        if word.startswith("--") and start:
            break
        if word.endswith(marks) or word in marks:
            start = i + 1
    return argv[start:]


class Judgement:
    """Runs stages and keeps the name of the one that is on, the values resolved so far, and what was printed."""

    def __init__(self):
        self.stage = "argparse"
        self.resolved = {}

    def verdict(self, run, root):
        """run(self) raises what the toolchain raises. Returns the verdict as the protocol has it."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                run(self)
        except KeyboardInterrupt:
            raise
        except SystemExit as error:  # argparse: the message is what it printed last
            lines = printed.getvalue().strip().splitlines()
            return self._refusal(error, lines[-1] if lines else str(error), root)
        except Refusal as error:
            return self._refusal(error, str(error), root) | {"type": "Hang", "where": None}
        except BaseException as error:
            return self._refusal(error, str(error), root)
        return {"stage": "ok", "type": None, "message": None, "where": None, "resolved": self.resolved}

    def _refusal(self, error, message, root):
        """An exception raised in our own files, a stand-in that knows too little for one, is no verdict."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = not isinstance(error, (SystemExit, Refusal)) and frames and is_ours(frames[-1].filename)
        return {
            "stage": "witness" if ours else self.stage,
            "type": type(error).__name__,
            "message": message,
            "where": last_place(error, root),
            "resolved": self.resolved,
        }


def find_package(name, folder):
    """The folder that holds the package: `folder`, put first on the path, a checkout's python/ in it, or where this
    interpreter finds it."""
    if folder:
        for candidate in (folder, os.path.join(folder, "python")):
            if os.path.isdir(os.path.join(candidate, name)):
                sys.path.insert(0, os.path.abspath(candidate))
                return os.path.abspath(candidate)
        raise ModuleNotFoundError("%s holds no package '%s'" % (folder, name), name=name)
    spec = importlib.util.find_spec(name)
    for place in (spec and spec.submodule_search_locations) or ():
        return os.path.dirname(os.path.abspath(place))
    raise ModuleNotFoundError("No module named '%s'" % name, name=name)


def package_version(distribution, root):
    """Version of the distribution whose files lie in `root`, or None."""
    for found in importlib.metadata.distributions(path=[root]):
        if (found.metadata["Name"] or "").replace("_", "-").lower() == distribution:
            return found.version
    return None


def answer(judge, line):
    """The verdict for one line of input, with its id."""
    request = {}
    try:
        request = json.loads(line)
        if not isinstance(request.get("argv"), list):
            raise ValueError("argv: a list of words is needed; a plan without a command cannot be asked about")
        verdict = judge(request)
    except KeyboardInterrupt:
        raise
    except Exception as error:  # ours, not the toolchain's: never a verdict
        verdict = {"stage": "witness", "type": type(error).__name__, "message": str(error),
                   "where": last_place(error, os.sep)}
    return {"id": request.get("id") if isinstance(request, dict) else None} | verdict


def loop(load, folder, source, out):
    """Says hello, or why it cannot (status 3), then answers every line of `source` until it ends."""

    def say(said):
        out.write(json.dumps(said, default=str) + "\n")
        out.flush()

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            hello, judge = load(folder)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError)
        say({"hello": None, "missing": error.name if missing else None, "type": type(error).__name__,
             "message": str(error), "where": last_place(error, os.sep),
             "python": "%d.%d.%d" % sys.version_info[:3]})
        return 3
    say({"hello": hello})
    for line in source:
        if line.strip():
            say(answer(judge, line))
    return 0


def fork_loop(load, folder, siblings):
    """A child that runs `loop` with streams of its own; ends when its input does. It lets go of the streams to its
    siblings, which would not see their input end otherwise. Returns (write to it, read from it, pid)."""
    to_child, from_child = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for to, back, _ in siblings:
                to.close()
                back.close()
            os.close(to_child[1])
            os.close(from_child[0])
            status = loop(load, folder, os.fdopen(to_child[0], "rb"), os.fdopen(from_child[1], "w", encoding="utf-8"))
        finally:
            os._exit(status)
    os.close(to_child[0])
    os.close(from_child[1])
    return os.fdopen(to_child[1], "wb"), os.fdopen(from_child[0], "rb"), pid


def serve(load, key=None, first=None):
    """Serves standard input and output. load(folder) -> (hello, judge).

    With `key`, what the package looks at once when it is imported differs between requests: load is then load(folder,
    key), and every distinct key(request) gets a process that imported the package under it; `first` is the key that
    says hello."""
    options = {"--path": None, "--sm": None}
    words = sys.argv[1:]
    while len(words) >= 2 and words[0] in options:
        options[words[0]] = words[1]
        words = words[2:]
    if words:
        sys.stderr.write("usage: [--path FOLDER] [--sm COMPUTE_CAPABILITY] < requests\n")
        return 2
    folder = options["--path"]
    if key and options["--sm"]:
        first = int(options["--sm"])
    out = quiet_stdout()
    try:
        if not key:
            return loop(load, folder, sys.stdin.buffer, out)
        return relay(load, folder, key, first, out)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def relay(load, folder, key, first, out):
    children = {}

    def child(k):
        """Starts the process for `k`; its hello."""
        children[k] = fork_loop(lambda given: load(given, k), folder, list(children.values()))
        return children[k][1].readline()

    def say(line):
        out.write(line.decode())
        out.flush()

    hello = child(first)
    say(hello)
    if not json.loads(hello).get("hello"):
        return 3
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            k = key(json.loads(line))
        except Exception:
            k = first
        if k not in children:
            child(k)
        to, back, _ = children[k]
        to.write(line if line.endswith(b"\n") else line + b"\n")
        to.flush()
        verdict = back.readline()
        if not verdict:
            raise BrokenPipeError("the process for %r ended" % (k,))
        say(verdict)
    for to, _, _ in children.values():
        to.close()
    for _, _, pid in children.values():
        os.waitpid(pid, 0)
    return 0
