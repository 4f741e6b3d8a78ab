#!/usr/bin/env python3
"""vestige eval as a user meets it, on a random model and on nano. usage: eval_cli_test.py PATH/TO/vestige"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from tiny_model import make_model

VESTIGE = ""
OK, INPUT, INTERRUPTED = 0, 2, 130
CELL_KEYS = {"task", "length", "policy", "ratio", "trials", "counted", "measure", "right", "rate", "wilson_95", "sign_test_p", "delta_nats",
             "delta_nats_95", "steps"}


class EvalCliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(prefix="vestige_eval_"))
        cls.model = make_model(cls.shared / "model")
        cls.corpus = cls.shared / "corpus.txt"
        cls.corpus.write_text("\0".join(f"Document {i}: it was a dark and stormy night, the {i * 7}th of its kind." for i in range(60)))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.out = Path(tempfile.mkdtemp(dir=self.shared)) / "run"

    def tiny(self, *args, model=None, trials=2):
        return ["eval", "-m", model or self.model, "--block-rows", 64, "--tasks", "ce", "--lengths", 256, "--ratios", 8, "--policies",
                "vestige,random", "--trials", trials, "--corpus", self.corpus, "--out", self.out, *args]

    def run_vestige(self, args):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VESTIGE_")}
        return subprocess.run([VESTIGE, *map(str, args)], capture_output=True, timeout=300, env=environment, stdin=subprocess.DEVNULL)

    def expect(self, args, code, *words):
        done = self.run_vestige(args)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        if code == INPUT:
            self.assertEqual((text.count("\n"), done.stdout), (1, b""), text)
        for word in words:
            self.assertIn(word, text)
        return done.stdout

    def results(self):
        return (self.out / "results.jsonl").read_text().splitlines()

    def outcomes(self):
        """Lines of outcomes without the clock."""
        found = [json.loads(line) for line in self.results()]
        for line in found:
            line.get("record", {}).pop("attend_us", None)
        return [line for line in found if "task" in line]

    def test_list(self):
        listed = self.expect(["eval", "--list"], OK).decode()
        for name in ("needle", "records", "ce", "anatomy", "merge_census"):
            self.assertIn(f"{name} ", listed)

    def test_report_and_resume(self):
        report = json.loads(self.expect(self.tiny("--json"), OK))
        self.assertEqual(set(report), {"run", "gates", "cells"})
        self.assertEqual([c["policy"] for c in report["cells"]], ["full", "vestige:8", "random:8"])
        self.assertEqual(report["cells"][0]["delta_nats"], 0)
        self.assertTrue(all(g["passed"] for g in report["gates"]))
        self.assertEqual(json.loads((self.out / "report.json").read_text()), report)
        before = self.results()
        self.assertEqual(len(self.outcomes()), 6)
        table = self.expect(self.tiny(), OK).decode()
        self.assertIn("vestige:8", table)
        self.assertEqual(self.results(), before)
        self.expect(self.tiny(trials=3), OK)
        self.assertEqual(self.results()[: len(before)], before)
        self.assertEqual(len(self.outcomes()), 9)

    def test_html_is_whole_and_alone(self):
        self.expect(self.tiny(), OK)
        page = (self.out / "report.html").read_text()
        found = []

        class Reader(HTMLParser):
            def handle_starttag(self, tag, attrs):
                found.append((tag, dict(attrs)))

        Reader().feed(page)
        tags = [tag for tag, _ in found]
        self.assertIn("svg", tags)
        self.assertNotIn("script", tags)
        self.assertFalse([a for _, a in found if "src" in a or "href" in a])

    def test_interrupted_then_finished(self):
        self.expect(self.tiny(), OK)
        whole, self.out = self.outcomes(), self.out.parent / "again"
        args = [VESTIGE, *map(str, self.tiny("--threads", 1))]
        process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        limit = time.monotonic() + 60
        while time.monotonic() < limit and not (self.out / "results.jsonl").exists():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (INTERRUPTED, OK), err)  # OK: it was done before the signal came
        if process.returncode == INTERRUPTED:
            self.assertEqual((out, err), (b"", b"vestige: interrupted\n"))
        self.expect(self.tiny(), OK)
        self.assertEqual(self.outcomes(), whole)

    def test_refusals(self):
        self.expect(self.tiny(), OK)
        other = make_model(self.out.parent / "other", salt=" ")
        self.expect(self.tiny(model=other), INPUT, "model = ")
        self.expect(self.tiny("--seed", 1), INPUT, "seed = 0")
        base = ["eval", "-m", self.model, "--block-rows", 64, "--lengths", 256]
        self.expect([*base, "--tasks", "ce"], INPUT, "--corpus")
        self.expect([*base, "--tasks", "cf"], INPUT, "want one of: needle")
        self.expect([*base, "--tasks", "records", "--policies", "vestige@taus=1"], INPUT, "no setting \"taus\"")
        self.expect([*base, "--tasks", "records", "--shard", "2/2"], INPUT, "--shard")
        self.expect(["eval", "--tasks", "records"], INPUT, "-m")

    def test_no_results_when_a_gate_fails(self):
        self.expect(["eval", "-m", self.model, "--block-rows", 512, "--tasks", "ce", "--lengths", 256, "--trials", 1, "--corpus", self.corpus],
                    INPUT, "results are not shown: gate fired, length 256, vestige:32")

    def test_nano_looks_records_up(self):
        report = json.loads(self.expect(["eval", "-m", ROOT / "models" / "nano", "--tasks", "records", "--lengths", 2048, "--block-rows", 512,
                                         "--policies", "vestige,streaming", "--trials", 2, "--json", "--out", self.out], OK))
        cells = {c["policy"]: c for c in report["cells"]}
        self.assertEqual(set(cells["full"]), CELL_KEYS)
        self.assertEqual([cells[p]["counted"] for p in cells], [2, 2, 2])
        self.assertEqual([cells[p]["right"] for p in ("full", "vestige:32", "streaming:32")], [2, 2, 0])
        self.assertEqual(cells["streaming:32"]["steps"]["recalled_rows"], 0)
        self.assertGreater(cells["vestige:32"]["steps"]["recalled_rows"], 0)
        self.assertLess(cells["vestige:32"]["steps"]["kept_rows"], 2048 / 32 + 5)
        self.assertIn("leakage", {g["gate"] for g in report["gates"]})


if __name__ == "__main__":
    VESTIGE = sys.argv.pop(1)
    unittest.main()
