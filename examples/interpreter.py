#!/usr/bin/env python3
"""A long conversation with an interpreter: one process that remembers, asked again and again.

Each answer ends with a line that nothing else prints. A question that fails has its error on
stderr, and the next one is answered all the same.
"""
import json
import os
import tempfile

TREE = os.environ.get("HUTCH", "/run/hutch")
END = "-- end of answer --"

# Reads one JSON string a line and runs it; what it defines stays.
SERVER = f"""
import json, sys, traceback
names = {{}}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<question>", "exec"), names)
    except Exception:
        traceback.print_exc(limit=0)
    print({END!r}, flush=True)
"""


class Interpreter:
    def __init__(self, box):
        fd = os.open(f"{box}/exec/new", os.O_RDWR)
        os.write(fd, json.dumps({"cmd": ["python3", "-c", SERVER]}).encode())
        self.node = f"{box}/exec/{os.read(fd, 100).decode().strip()}"
        os.close(fd)
        self.stdin = open(f"{self.node}/stdin", "w")  # while it is open, the input has no end
        self.stdout = open(f"{self.node}/stdout")

    def ask(self, code):
        self.stdin.write(json.dumps(code) + "\n")
        self.stdin.flush()
        answer = []
        for line in self.stdout:  # waits for what comes
            if line.rstrip("\n") == END:
                return "".join(answer)
            answer.append(line)
        raise EOFError(open(f"{self.node}/status").read().strip())

    def close(self):
        self.stdin.close()
        return int(open(f"{self.node}/code").read())


def main():
    box = tempfile.mkdtemp(prefix="interpreter-", dir=TREE)
    try:
        python = Interpreter(box)
        python.ask("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)")
        print("fib(20) is", python.ask("print(fib(20))").strip())
        python.ask("total = 0")
        for i in range(1000):
            python.ask(f"total += {i}")
        print("after 1000 questions:", python.ask("print(total)").strip())
        python.ask("1 / 0")
        print("an error:", open(f"{python.node}/stderr").readline().strip() if
              os.stat(f"{python.node}/stderr").st_size else "none")
        print("and on:", python.ask("print(total + 1)").strip())
        print("exit code", python.close())
    finally:
        os.rmdir(box)


if __name__ == "__main__":
    main()
