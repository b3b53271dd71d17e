"""The real packages: where they come from, and the process that asks them.

A worker reads JSON lines {id, argv, world_size, env, ...} and answers one verdict a line: stage, type, message, where.
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile

PACKAGES = {"megatron": ("megatron-core", "megatron", (3, 11)), "sglang": ("sglang", "sglang", (3, 11))}


class Missing(Exception):
    """A package or an interpreter cannot be had; the text says why."""


def toolchain(name):
    kind, version = name.split("-", 1)
    return (kind, version, *PACKAGES[kind])


def package(name, folder):
    """The folder that holds the unpacked package, downloaded into `folder` unless it is there."""
    kind, version, project, module, _ = toolchain(name)
    home = os.path.join(folder, f"{project}-{version}")
    if os.path.isdir(os.path.join(home, module)):
        return home
    wheels = os.path.join(folder, "wheels")
    # The wheel itself, whatever the interpreter: its Python files alone are read, nothing of it is installed.
    command = [sys.executable, "-m", "pip", "download", f"{project}=={version}", "--no-deps", "--only-binary=:all:", "--dest", wheels,
               "--python-version", "3.12", "--implementation", "cp", "--abi", "cp312", "--disable-pip-version-check", "--quiet"]
    for platform in ("manylinux_2_24_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64", "manylinux_2_39_x86_64", "any"):
        command += ["--platform", platform]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{project}=={version} cannot be downloaded: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    wheel = [w for w in os.listdir(wheels) if w.startswith(project.replace("-", "_") + f"-{version}-")][0]
    unpacked = home + ".part"
    shutil.rmtree(unpacked, ignore_errors=True)
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        archive.extractall(unpacked)
    os.rename(unpacked, home)
    return home


def python_for(name, given):
    """An interpreter new enough for the package's source."""
    least = toolchain(name)[4]
    candidates = [given] if given else [sys.executable, "python3"] + [f"python3.{minor}" for minor in range(14, least[1] - 1, -1)]
    seen = []
    for candidate in candidates:
        try:
            done = subprocess.run([candidate, "-c", "import sys, pip; print(*sys.version_info[:2])"], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0:
            version = tuple(int(x) for x in done.stdout.split())
            seen.append(".".join(map(str, version)))
            if version >= least:
                return candidate
    raise Missing(f"{name} is written for Python {'.'.join(map(str, least))} or newer, and here is {', '.join(seen) or 'none'} "
                  "(--python names another)")


class Worker:
    """One long-lived witness. `ask` takes requests and gives verdicts in their order.

    Two protocols are spoken: that of job/witness, which says hello first, and the older one of a script that takes the
    package's folder from the environment and says nothing before the first verdict. The second is for witnesses that go
    further into SGLang than ours, such as one that builds the model on tensors that are shapes alone."""

    def __init__(self, name, package_folder, python, folder):
        kind = toolchain(name)[0]
        script = os.path.join(folder, f"witness_{kind}.py")
        if not os.path.exists(script):
            raise Missing(f"no witness {script}")
        self.greets = os.path.exists(os.path.join(folder, "worker.py"))
        env = {**os.environ, "MLM" if kind == "megatron" else "SGL": package_folder, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen([python, script, *(["--path", package_folder] if self.greets else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.hello = None
        if self.greets:
            hello = json.loads(self.process.stdout.readline() or "{}")
            self.hello = hello.get("hello")
            if not self.hello:
                self.close()
                raise Missing(f"the witness cannot import {kind}: {hello.get('type')}: {hello.get('message')}")

    def ask(self, requests, progress=None, deadline=None):
        """Answers by id. Requests are fed by a thread, so that neither pipe fills."""
        def feed():
            try:
                for request in requests:
                    self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                pass

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        answers = {}
        while len(answers) < len(requests):
            line = self.process.stdout.readline()
            if not line:
                raise Missing("the witness ended: " + ("".join(self.errors[-3:]).strip() or "without a word"))
            if not line.startswith("{"):
                continue
            answer = json.loads(line)
            if answer["stage"] == "witness":
                raise Missing(f"the witness has no verdict: {answer.get('message')}")
            answers[answer["id"]] = answer
            if progress:
                progress(len(answers), len(requests))
            if deadline and deadline():
                break
        return answers

    def close(self):
        self.process.kill()
        self.process.wait()
