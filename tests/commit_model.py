#!/usr/bin/env python3
"""commit_model.py EXEC-DIRECTORY ROUNDS [SEED]: when is what was written a command?

Random requests are written in random pieces through random handles by random processes, with
pauses, flushes and reads between, and what hutchd answers is compared with a model of the rule:

- JSON commits in the write that completes it; only white space may follow in that write.
- Text commits at a flush by whoever wrote last, at a read of the handle, or at the last close.
- A write-only handle takes one command; after it white space, and EBUSY for anything else.
- A write that was refused is answered alike from then on; what was pending is gone.  So is one behind a
  read that refused what had been written.
- Nothing is refused at a flush: JSON that never ended becomes a node that failed.  A read refuses it.  Its
  other half is not a request: nothing but white space may follow.
- `last` is the newest command; after a refusal there is none until the next is accepted.

Who wrote is told apart by the process (the kernel's lock owner), so each round has three.  A
failure prints the whole round, and the seed that brings it back.  Half a text may become a script of
its own: what that does is of no interest.
"""
import errno
import json
import os
import random
import sys
import time

EXEC = sys.argv[1]
BLANK = " \t\n"


def document_end(text):
    """Where its brackets have closed, or what makes that impossible; None: it goes on."""
    open_, in_string, escaped = [], False, False
    for i, c in enumerate(text):
        if in_string:
            if escaped or c != '"':
                escaped = not escaped and c == "\\"
            else:
                in_string = False
        elif c == '"':
            in_string = True
        elif c in "{[":
            open_.append(c)
        elif c in "}]" and open_.pop() != "{["["}]".index(c)]:
            return i
        if not open_:
            return i + 1
    return None


def command(text):
    """What a document asks to be run; None: it is refused."""
    try:
        doc = json.loads(text)
    except ValueError:
        return None
    if isinstance(doc, list):
        doc = {"cmd": doc}
    cmd = doc.get("cmd")
    good = isinstance(cmd, str) or (isinstance(cmd, list) and cmd and all(isinstance(a, str) for a in cmd))
    return cmd if good and set(doc) <= {"cmd", "env"} else None


class Model:
    """One handle. `nodes` is shared: what every commit has made, in order."""

    def __init__(self, nodes, both):
        self.nodes, self.both = nodes, both
        self.pending, self.form, self.owner = "", None, None
        self.taken, self.broken, self.refused, self.after_json = False, False, None, False
        self.owed = []

    def commit(self, kind, what):
        self.nodes.append((kind, what))
        self.nodes.last = len(self.nodes)
        self.after_json, self.broken = kind != "text", kind == "broken"
        self.pending, self.form = "", None
        if self.both:
            self.owed.append(str(len(self.nodes)))
        else:
            self.taken = True

    def refuse(self, code):
        self.refused, self.pending, self.form = code, "", None
        self.nodes.last = None
        return code

    def write(self, owner, piece):
        if self.refused:
            return self.refused
        blank = not piece.strip(BLANK)
        if self.taken:
            return None if blank else self.refuse("EBUSY")
        if self.broken:
            return None if blank else self.refuse("EINVAL")
        if self.form is None:
            if self.after_json and blank:
                return None
            self.after_json = False
            self.form = "json" if piece[0] in "{[" else "text"
        self.owner = owner
        if self.form == "text":
            if "\0" in piece:
                return self.refuse("EINVAL")
            self.pending += piece
            return None
        self.pending += piece
        end = document_end(self.pending)
        if end is None:
            return None
        cmd = command(self.pending[:end])
        if cmd is None or self.pending[end:].strip(BLANK):
            return self.refuse("EINVAL")
        self.commit("json", cmd)
        return None

    def flush(self, owner):
        if self.form is None:
            self.after_json = False
        elif owner == self.owner:
            self.end()

    def end(self):
        if self.form == "text":
            self.commit("text", self.pending)
        elif self.form == "json":
            self.commit("broken", None)

    def read(self):
        """A name, "" or an errno."""
        if self.form == "text":
            self.commit("text", self.pending)
        elif self.form == "json":
            return self.refuse("EINVAL")
        return self.owed.pop(0) + "\n" if self.owed else ""


class Nodes(list):
    last = None


class Owner:
    """A process that has the handles and does with them what it is told."""

    def __init__(self, fds):
        self.fds = fds
        self.ask_r, self.ask_w = os.pipe()
        self.say_r, self.say_w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.serve()

    def serve(self):
        os.close(self.ask_w)
        os.close(self.say_r)
        ask = os.fdopen(self.ask_r)
        while (what := json.loads(ask.readline())) is not None:
            os.write(self.say_w, json.dumps(perform(self.fds, *what)).encode() + b"\n")
        os._exit(0)

    def do(self, *what):
        os.write(self.ask_w, json.dumps(what).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self.say_r, 65536)
        return json.loads(answer)

    def end(self):
        os.write(self.ask_w, b"null\n")
        for fd in (self.ask_r, self.ask_w, self.say_r, self.say_w):
            os.close(fd)
        os.waitpid(self.pid, 0)


def perform(fds, what, handle, piece=None):
    fd = fds[handle]
    try:
        if what == "write":
            os.write(fd, piece.encode())
        elif what == "flush":
            os.close(os.dup(fd))
        elif what == "read":
            return os.read(fd, 100).decode()
    except OSError as e:
        return errno.errorcode[e.errno]
    return None


def request(rnd, serial):
    """A request and white space that may come behind it."""
    word = rnd.choice(["", "}", '"', "\\", "[", "ä", "{", "x" * rnd.randrange(300)]) + str(serial)
    kind = rnd.random()
    space = "".join(rnd.choice(BLANK) for _ in range(rnd.randrange(4)))
    if kind < 0.45:
        lines = rnd.choice(["", " ", "\n"]) + f": {serial}\n"
        for i in range(rnd.randrange(6)):
            lines += f": line {i} {'y' * rnd.randrange(40)}\n"
        return lines + ("a\0b" if rnd.random() < 0.05 else "")
    if kind < 0.6:
        return json.dumps(["true", word], indent=rnd.choice([None, 1])) + space
    doc = {"cmd": rnd.choice([["true", word], f": {serial}"]), "env": {"A": word}}
    if rnd.random() < 0.1:
        doc["bad"] = 1
    text = json.dumps(doc, ensure_ascii=rnd.random() < 0.5, indent=rnd.choice([None, 2]))
    if rnd.random() < 0.1:
        return text[: rnd.randrange(1, len(text))]
    return text + space + ("x" if rnd.random() < 0.05 else "")


def pieces(rnd, text):
    cuts = sorted(rnd.sample(range(1, len(text)), min(rnd.choice([0, 0, 1, 2, 5]), len(text) - 1)))
    return [text[a:b] for a, b in zip([0] + cuts, cuts + [len(text)])]


def show_last():
    try:
        return os.readlink(EXEC + "/last")
    except FileNotFoundError:
        return None


def wait_until(seconds, test):
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class Failed(Exception):
    pass


def play(rnd, nodes, log):
    first = len(nodes)
    both = [rnd.random() < 0.5 for _ in range(rnd.choice([1, 1, 2]))]
    fds = [os.open(EXEC + "/new", os.O_RDWR if b else os.O_WRONLY) for b in both]
    models = [Model(nodes, b) for b in both]
    owners = [None] + [Owner(fds) for _ in range(2)]

    def do(who, what, h, piece=None):
        log.append((who, what, h, piece))
        model = models[h]
        if what == "write":
            want = model.write(who, piece)
        elif what == "read":
            want = model.read()
        else:
            want = model.flush(who)
        got = perform(fds, what, h, piece) if who == 0 else owners[who].do(what, h, piece)
        if got != want:
            raise Failed(f"{what}: the model says {want!r}, hutchd {got!r}")
        last = str(nodes.last) if nodes.last else None
        if show_last() != last:
            raise Failed(f"last: the model says {last!r}, hutchd {show_last()!r}")

    try:
        for _ in range(rnd.randrange(1, 5)):
            h = rnd.randrange(len(fds))
            who = rnd.randrange(3)
            for piece in pieces(rnd, request(rnd, len(nodes))):
                if rnd.random() < 0.1:
                    who = rnd.randrange(3)
                do(who, "write", h, piece)
                chance = rnd.random()
                if chance < 0.15:
                    do(rnd.randrange(3), "flush", h)
                elif chance < 0.2:
                    time.sleep(rnd.random() * 0.01)
                elif chance < 0.25 and len(fds) > 1:
                    do(rnd.randrange(3), "write", 1 - h, ": other\n")
            if rnd.random() < 0.5:
                do(who, "flush", h)
            while both[h] and rnd.random() < 0.5:
                do(rnd.randrange(3), "read", h)
    finally:
        order = [1, 2]
        rnd.shuffle(order)
        for who in order:
            owners[who].end()  # which closes its copies: a flush of each
            for model in models:
                model.flush(who)
        for h in rnd.sample(range(len(fds)), len(fds)):
            os.close(fds[h])  # flush, then release, which comes a little later
            models[h].flush(0)
            models[h].end()
            wait_until(10, lambda: not nodes or os.path.exists(f"{EXEC}/{len(nodes)}") or len(nodes) == first)


def check(nodes, before):
    """What the new nodes are; then they are removed."""
    want = {str(i + 1) for i in range(before, len(nodes))}

    def there():
        return {n for n in os.listdir(EXEC) if n.isdigit()}

    if not wait_until(10, lambda: there() == want):
        raise Failed(f"the model has made {sorted(want)}, hutchd {sorted(there())}")
    for i in range(before, len(nodes)):
        kind, what = nodes[i]
        node = f"{EXEC}/{i + 1}"
        code = open(node + "/code").read().strip()
        status = open(node + "/status").read().strip()
        if kind == "broken":
            if code != "125" or not status.startswith("failed: "):
                raise Failed(f"{node}: {status}, not a document that never ended")
        elif json.load(open(node + "/cmd"))["cmd"] != what or (kind == "json" and what[0] == "true" and code != "0"):
            raise Failed(f"{node}: {open(node + '/cmd').read()!r} {status}, not {what!r}")
        os.rmdir(node)
    nodes.last = None


def main():
    rounds = int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else random.randrange(1 << 30)
    rnd = random.Random(seed)
    nodes = Nodes()
    for i in range(rounds):
        before, log = len(nodes), []
        try:
            play(rnd, nodes, log)
            check(nodes, before)
        except Failed as e:
            print(f"seed {seed}, round {i}: {e}")
            for entry in log:
                print("  ", entry)
            return 1
    print(f"seed {seed}: {rounds} rounds, {len(nodes)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
