"""Runs tests of Python's own suite and prints how each ended, in order of their names.

    outcomes.py MODULE [--only PATTERN | --without PATTERN | --with RESOURCE]...

What the tests print is dropped. A PATTERN is part of a test's name. As with `python3 -m test`, what takes very long
or asks the Internet is skipped, unless RESOURCE names it (`network`). The loopback interface is switched on, as a
system that has started has it.
"""
import fcntl
import os
import socket
import struct
import sys
import unittest
from test import support

RESOURCES = ["largefile", "subprocess"]


class Outcomes(unittest.TestResult):
    """How each test ended: the worst of its parts."""

    ORDER = ["ok", "skipped", "expected failure", "failed", "error", "unexpected success"]

    def __init__(self):
        super().__init__()
        self.by_name = {}

    def note(self, test, outcome):
        name = getattr(test, "test_case", test).id()
        before = self.by_name.get(name, "ok")
        self.by_name[name] = max(before, outcome, key=self.ORDER.index)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error")

    def addSubTest(self, test, part, error):
        super().addSubTest(test, part, error)
        if error is not None:
            self.note(test, "failed" if issubclass(error[0], test.failureException) else "error")


def chosen(suite, only, without):
    """The tests of a suite that are to be run."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test, only, without)
        elif (not only or any(part in test.id() for part in only)) and not any(
            part in test.id() for part in without
        ):
            yield test


def switch_loopback_on():
    """Sets the flag IFF_UP of `lo` (netdevice(7))."""
    SIOCSIFFLAGS, IFF_UP = 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def main(module, arguments):
    switch_loopback_on()
    only, without, resources = (
        [value for name, value in zip(arguments, arguments[1:]) if name == option]
        for option in ("--only", "--without", "--with")
    )
    said = os.dup(1)
    nowhere = os.open(os.environ.get("OUTCOMES_LOG", os.devnull), os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    support.use_resources = RESOURCES + resources
    outcomes = Outcomes()
    suite = unittest.defaultTestLoader.loadTestsFromName("test." + module)
    # A suite, not tests one by one: it sets classes and modules up.
    unittest.TestSuite(chosen(suite, only, without)).run(outcomes)
    with os.fdopen(said, "w") as out:
        for name, outcome in sorted(outcomes.by_name.items()):
            print(outcome, name, file=out)
        for _, error in outcomes.failures + outcomes.errors:
            print(error.strip().splitlines()[-1], file=out)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
