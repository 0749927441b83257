#!/usr/bin/env python3
"""Python without a library: files are all there is.

run() is all that most programs need. `new` is opened with os.open(), since what Python's open()
gives for reading and writing wants to seek.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

TREE = os.environ.get("HUTCH", "/run/hutch")


def start(box, **request):
    """Starts a command and returns its directory."""
    fd = os.open(f"{box}/exec/new", os.O_RDWR)
    try:
        os.write(fd, json.dumps(request).encode())  # what is wrong with it is raised here
        return f"{box}/exec/{os.read(fd, 100).decode().strip()}"
    finally:
        os.close(fd)


def run(box, cmd, input=b"", **request):
    """Runs a command to its end, as subprocess.run() does, and returns a CompletedProcess."""
    node = start(box, cmd=cmd, **request)

    def feed():
        try:
            with open(f"{node}/stdin", "wb") as f:  # closing it is the end of the input
                f.write(input)
        except BrokenPipeError:
            pass  # it did not want all of it

    # Beside the reading, as in subprocess: a command that answers while it reads must not stall.
    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(f"{node}/stdout", "rb") as out, open(f"{node}/stderr", "rb") as err:
        stdout, stderr = out.read(), err.read()
    feeder.join()
    with open(f"{node}/result.json") as f:
        result = json.load(f)
    code = -signal.Signals[result["signal"]] if result["signal"] else result["exit_code"]
    os.rmdir(node)
    return subprocess.CompletedProcess(cmd, code, stdout, stderr)


def main():
    box = tempfile.mkdtemp(prefix="python-", dir=TREE)  # a directory is a sandbox
    try:
        print(run(box, ["tr", "a-z", "A-Z"], b"hello from python\n").stdout.decode(), end="")
        print(run(box, "echo oops >&2; exit 3"))
        print(run(box, ["sleep", "100"], timeout_s=0.2).returncode)
        big = os.urandom(3_000_000)
        print("3 MB there and back:", run(box, ["cat"], big).stdout == big)
        try:
            run(box, [])
        except OSError as e:
            why = open(f"{TREE}/error").readline().split(" ", 3)[3]
            print(f"{e.strerror}: {why}", end="")
    finally:
        os.rmdir(box)


if __name__ == "__main__":
    sys.exit(main())
