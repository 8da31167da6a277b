#!/usr/bin/env python3
"""Tries Weir's HTTP/3 as a stranger and as an attacker: see README.md."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import floods
import interop
import rules
from rig import Rig

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CODES = {None: "lives", "message": "4xx or 0x10e", "incomplete": "4xx or 0x10d"}


def code(expected):
    if isinstance(expected, tuple):
        return " or ".join(code(one) for one in expected)
    return CODES.get(expected) or f"{expected:#x}"


class Table:
    """Rows as they come: as a table of Markdown, or as lines."""

    def __init__(self, is_markdown, columns):
        self.is_markdown, self.failed, self.count = is_markdown, 0, 0
        if is_markdown:
            print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")

    def row(self, cells, failed):
        self.count += 1
        self.failed += failed
        if self.is_markdown:
            print("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |", flush=True)
        else:
            print(("FAILED  " if failed else "ok      ") + "  ".join(str(cell) for cell in cells), flush=True)


def run_interop(arguments):
    table = Table(arguments.markdown, ["case", "result", "what was seen"])
    with Rig(arguments.weir, workers=2) as rig:
        interop.run(rig, arguments.names, lambda *cells: table.row(cells, cells[1] == "FAILS"))
    return table


def run_rules(arguments):
    table = Table(arguments.markdown, ["rule", "section", "about", "expected", "found"])
    with Rig(arguments.weir) as rig:
        def show(name, where, about, expected, outcome, passed):
            table.row((name, where, about, code(expected), outcome), not passed)
        rules.run(rig, arguments.names, show)
    return table


def run_floods(arguments):
    table = Table(arguments.markdown, ["flood", "what", "outcome", "reason", "memory", "another client"])

    def show(name, about, ends, told, end, reasons, memory, others, panics, _rig):
        known = {reason for reason in reasons if not reason.startswith("weir_")}
        failed = bool(panics) or " 0 failed" not in others
        failed |= ends is not None and ends not in known
        outcome = told + (f"; closed: {end}" if end else "")
        table.row((name, about, outcome, ", ".join(sorted(known)), f"{memory:+.0f} MiB", others), failed)
    floods.run(arguments.weir, arguments.names, show)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=["interop", "rules", "floods"])
    parser.add_argument("names", nargs="*", help="only these cases")
    parser.add_argument("--weir", default=f"{ROOT}/target/debug/weir", help="the program")
    parser.add_argument("--markdown", action="store_true", help="print a table")
    arguments = parser.parse_intermixed_args()
    run = {"interop": run_interop, "rules": run_rules, "floods": run_floods}[arguments.suite]
    table = run(arguments)
    print(f"\n{table.count} cases, {table.failed} failed", file=sys.stderr)
    sys.exit(bool(table.failed))


if __name__ == "__main__":
    main()
