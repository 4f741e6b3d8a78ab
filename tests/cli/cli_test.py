#!/usr/bin/env python3
"""The vestige binary as a user meets it: good runs, bad input, a full disk, Ctrl-C. usage: cli_test.py PATH/TO/vestige"""

import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiny_model import WINDOW, make_model

ROOT = Path(__file__).resolve().parent.parent.parent
VESTIGE = ""
TEXT = "It was a dark and stormy night. " * 12
OK, USAGE, INPUT, SYSTEM, INTERRUPTED = 0, 1, 2, 3, 130
STATS_KEYS = {"tokens_per_s", "layers", "kept_rows", "archived_rows", "tail_rows", "recalled_rows", "worst_recalled_rows",
              "overflowed_steps", "gated_heads", "steps", "read_bytes_per_token", "full_bytes_per_token", "attend_us_per_token", "coded_rows",
              "scanned_rows", "archive_bytes_per_row", "omitted_mass_bound", "output_error_bound"}


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(prefix="vestige_cli_"))
        cls.shared.chmod(0o755)
        cls.model = make_model(cls.shared / "model")
        cls.document = cls.shared / "doc.txt"
        cls.document.write_text(TEXT)
        cls.context = cls.shared / "doc.vctx"
        cls.compress(cls.context, check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared)

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=self.shared))
        self.folder.chmod(0o755)

    @staticmethod
    def run_vestige(*args, **options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VESTIGE_")} | options.pop("env", {})
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([VESTIGE, *map(str, args)], capture_output=True, timeout=300, env=environment, **options)

    @classmethod
    def compress(cls, output, *args, document=None, **options):
        return cls.run_vestige("compress", "-m", cls.model, "-i", document or cls.document, "-o", output, "--block-rows", 64, "--ratio", 8,
                               *args, **options)

    def expect(self, done, code, *words):
        """Exit code; for a failure also one sentence on stderr, with these words, and nothing on stdout."""
        text = done.stderr.decode()
        self.assertEqual(done.returncode, code, text)
        if code not in (OK, INTERRUPTED):
            self.assertTrue(text.startswith("vestige: error: "), text)
            self.assertEqual(text.count("\n"), 1, text)
            self.assertEqual(done.stdout, b"")
        for word in words:
            self.assertIn(word, text)

    def expect_empty(self, folder=None):
        self.assertEqual(os.listdir(folder or self.folder), [])

    # Good runs.

    def test_grouped_query_attention(self):
        model = make_model(self.folder / "llama", fixture="llama_tiny")
        done = self.run_vestige("generate", "-m", model, "-p", "Once upon", "-n", 5, "--json")
        self.expect(done, OK)
        self.assertLessEqual(len(json.loads(done.stdout)["tokens"]), 5)
        context = self.folder / "doc.vctx"
        self.expect(self.run_vestige("compress", "-m", model, "-i", self.document, "-o", context, "--block-rows", 64), OK)
        self.expect(self.run_vestige("ask", context, "What night was it?", "-n", 4), OK)
        done = self.run_vestige("inspect", context, "--json")
        self.expect(done, OK)
        layers = json.loads(done.stdout)["attention_layers"]
        self.assertEqual([(layer["layer"], layer["kv_head"]) for layer in layers], [(0, 0), (0, 1), (1, 0), (1, 1)])

    def test_version_and_help(self):
        self.assertRegex(self.run_vestige("--version").stdout.decode(), r"^vestige \d+\.\d+\.\d+\n$")
        self.assertIn(b"Exit codes", self.run_vestige("--help").stdout)
        self.assertIn(b"default: by model", self.run_vestige("compress", "--help").stdout)
        for command in ("compress", "append", "ask", "generate", "inspect", "eval", "completion"):
            done = self.run_vestige(command, "--help")
            self.expect(done, OK)
            self.assertIn(b"Examples:", done.stdout)

    def test_compress_json(self):
        done = self.compress(self.folder / "a.vctx", "--json")
        self.expect(done, OK)
        self.assertEqual(done.stderr, b"policy vestige, ratio 8, block_rows 64: the default for latent rows (--policy names another)\n")
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"input", "model", "policy", "policy_chosen_by", "document_bytes", "tokens", "output", "file_bytes", "state_bytes",
                                       "rows", "read_s", "read_tokens_per_s", "write_s"})
        self.assertEqual(report["file_bytes"], (self.folder / "a.vctx").stat().st_size)
        rows = report["rows"]
        self.assertEqual(rows["kept"] + rows["archived"] + rows["tail"], rows["total"])
        self.assertEqual(rows["total"], report["tokens"])
        self.assertEqual((self.folder / "a.vctx").read_bytes(), self.context.read_bytes())

    def test_policy_by_model(self):
        """Latent rows: vestige. Keys and values: klt; where it cannot code them (12 wide): vestige."""
        odd = make_model(self.folder / "odd", fixture="llama_tiny")
        for model, rows, want in ((ROOT / "models" / "nano", "latent rows", ("vestige", 32, 4096)),
                                  (ROOT / "models" / "nano-gqa", "values 64 and keys 64 wide", ("klt", 20, 256)),
                                  (odd, "values 12 and keys 12 wide", ("vestige", 32, 4096))):
            base = ("compress", "-m", model, "-i", self.document, "--dry-run", "--json")
            done = self.run_vestige(*base)
            self.expect(done, OK)
            report = json.loads(done.stdout)
            self.assertEqual(tuple(report["policy"][key] for key in ("name", "ratio", "block_rows")), want)
            self.assertEqual(report["policy_chosen_by"], "model")
            name, ratio, block_rows = want
            self.assertEqual(done.stderr.decode(), f"policy {name}, ratio {ratio}, block_rows {block_rows}: the default for {rows} "
                                                   "(--policy names another)\n")
            done = self.run_vestige(*base, "--keep", 0.1, "--block-rows", 128, "--quiet")
            self.expect(done, OK)
            self.assertEqual(done.stderr, b"")
            policy = json.loads(done.stdout)["policy"]
            self.assertEqual((policy["name"], policy["ratio"], policy["block_rows"]), (name, 10, 128))
            done = self.run_vestige(*base, "--policy", "vestige")
            self.expect(done, OK)
            self.assertEqual(done.stderr, b"")
            report = json.loads(done.stdout)
            self.assertEqual((report["policy"]["name"], report["policy"]["ratio"], report["policy"]["block_rows"]), ("vestige", 32, 4096))
            self.assertEqual(report["policy_chosen_by"], "flag")

    def test_policy_by_model_in_files(self):
        """The file is that of the same policy by name; what a dry run said of its bytes holds; ask, inspect, generate and append know it."""
        model, document, output = ROOT / "models" / "nano-gqa", self.folder / "long.txt", self.folder / "a.vctx"
        document.write_text("".join(f"The secret passcode for place {i} is {7919 * i % 100000}.\n" for i in range(80)))
        base = ("compress", "-m", model, "-i", document)
        done = self.run_vestige(*base, "-o", output, "--json")
        self.expect(done, OK, "policy klt, ratio 20, block_rows 256")
        rows = json.loads(done.stdout)["rows"]
        named = ("--policy", "klt", "--ratio", 20, "--block-rows", 256)
        self.expect(self.run_vestige(*base, "-o", self.folder / "b.vctx", *named), OK)
        self.assertEqual(output.read_bytes(), (self.folder / "b.vctx").read_bytes())
        planned = json.loads(self.run_vestige(*base, "--dry-run", "--json").stdout)["rows"]
        self.assertGreater(rows["archived"], 1000)
        self.assertEqual({**planned, "attended_bytes": 0}, {**rows, "attended_bytes": 0})
        self.assertTrue(0.9 * planned["attended_bytes"] < rows["attended_bytes"] <= planned["attended_bytes"], (planned, rows))
        self.assertEqual(json.loads(self.run_vestige("inspect", output, "--json").stdout)["policy"]["name"], "klt")
        self.assertEqual(self.run_vestige("ask", output, "Who?", "-n", 2).stderr, b"")
        self.expect(self.run_vestige("append", output, "-", input=b"And then?"), OK)
        done = self.run_vestige("generate", "-m", model, "-p", "dark", "-n", 2, "--json")
        self.expect(done, OK, "policy klt, ratio 20, block_rows 256")
        self.assertEqual(json.loads(done.stdout)["policy"]["name"], "klt")

    def test_settings_without_a_policy(self):
        """Those of a policy that may be the default are good until the model is known; then they must be the chosen one's."""
        base = ("compress", "-i", self.document, "--dry-run", "--set")
        nano, gqa = (("-m", ROOT / "models" / name) for name in ("nano", "nano-gqa"))
        self.expect(self.run_vestige(*base, "mode=sound", *nano), OK)
        self.expect(self.run_vestige(*base, "key_weight=4", *gqa), OK)
        self.expect(self.run_vestige(*base, "mode=sound", *gqa), INPUT, "klt", "mode")
        self.expect(self.run_vestige(*base, "key_weight=4", *nano), INPUT, "vestige", "key_weight")
        self.expect(self.run_vestige(*base, "key_weight=0", *gqa), USAGE, "key_weight")

    def test_ratio_spellings(self):
        for flag, value in (("--ratio", "8x"), ("--ratio", "8.0"), ("--keep", "0.125")):
            done = self.run_vestige("compress", "-m", self.model, "-i", self.document, "-o", self.folder / "a.vctx", "--block-rows", 64, flag,
                                    value)
            self.expect(done, OK)
            self.assertEqual((self.folder / "a.vctx").read_bytes(), self.context.read_bytes())
            self.assertIn(b"8x = keep 0.125", done.stdout)

    def test_dry_run(self):
        done = self.run_vestige("compress", "-m", self.model, "-i", self.document, "--block-rows", 64, "--dry-run", "--json")
        self.expect(done, OK)
        self.assertEqual(json.loads(done.stdout)["rows"]["total"], len(TEXT))
        self.expect_empty()

    def test_stdin_and_chunks_and_threads(self):
        for name, args in (("a", ["--chunk", 7]), ("b", ["--threads", 1]), ("c", ["--threads", 3])):
            done = self.compress(self.folder / name, *args, document="-", input=TEXT.encode())
            self.expect(done, OK)
            self.assertEqual((self.folder / name).read_bytes(), self.context.read_bytes())

    def test_ask_json(self):
        done = self.run_vestige("ask", self.context, "Who?", "What?", "Who?", "-n", 5, "--json", "--stats")
        self.expect(done, OK, "Who?", "recalled")
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"file", "file_bytes", "tokens", "model", "policy", "open_s", "engine_s", "answers"})
        first, _, again = report["answers"]
        self.assertEqual(set(first), {"question", "answer", "question_tokens", "tokens", "finish_reason", "load_s", "first_token_s",
                                      "decode_s", "stats"})
        stats = first["stats"]
        self.assertEqual(set(stats), STATS_KEYS)
        self.assertIn(b"certified", done.stderr)
        self.assertEqual(len(stats["scanned_rows"]), 2)
        self.assertTrue(0 <= stats["omitted_mass_bound"]["mean"] <= stats["omitted_mass_bound"]["max"] <= 1)
        self.assertEqual(stats["output_error_bound"], {"max": 0, "mean": 0})  # that is of mode through
        self.assertEqual(first["tokens"], again["tokens"])
        self.assertEqual(first["question_tokens"], len("\nQuestion: Who?\nAnswer:"))

    def test_ask_in_every_mode(self):
        output = self.folder / "a.vctx"
        for mode in ("sound", "through"):
            self.expect(self.compress(output, "--set", f"mode={mode}"), OK)
            done = self.run_vestige("ask", output, "Who?", "-n", 3, "--json")
            self.expect(done, OK)
            stats = json.loads(done.stdout)["answers"][0]["stats"]
            self.assertGreater(stats["scanned_rows"][0], 0)
            if mode == "through" and stats["coded_rows"] > 0:
                self.assertGreater(stats["output_error_bound"]["max"], 0)
                self.assertEqual(stats["omitted_mass_bound"], {"max": 0, "mean": 0})
            elif stats["recalled_rows"] == stats["archived_rows"]:
                self.assertEqual(stats["omitted_mass_bound"]["max"], 0)
            self.expect(self.run_vestige("inspect", output), OK)

    def test_ask_text(self):
        done = self.run_vestige("ask", self.context, "Who?", "What?", "-n", 3)
        self.expect(done, OK)
        self.assertEqual(done.stderr, b"")
        raw = self.run_vestige("ask", self.context, "stormy", "-n", 4, "--raw", "--json")
        self.assertEqual(json.loads(raw.stdout)["answers"][0]["question_tokens"], 6)

    def test_empty_questions_are_refused(self):
        for questions in ([""], ["Who?", ""], [" \n"], ["", "--raw"]):
            done = self.run_vestige("ask", self.context, *questions, "-n", 2)
            self.expect(done, INPUT, "question is empty")
            self.assertEqual(done.stdout, b"")
        self.expect(self.run_vestige("ask", self.context, "\n", "--raw", "-n", 2), OK)

    def test_ask_under_another_policy(self):
        done = self.run_vestige("ask", self.context, "Who?", "-n", 2, "--policy", "full", "--json")
        self.expect(done, OK)
        self.assertEqual(json.loads(done.stdout)["policy"]["name"], "full")
        self.expect(self.run_vestige("ask", self.context, "Who?", "--policy", "vestige", "--ratio", 4), INPUT, "index")
        self.expect(self.run_vestige("ask", self.context, "Who?", "--policy", "vestige"), OK)

    def test_generate(self):
        base = ("generate", "-m", self.model, "-p", "dark", "-n", 6, "--json")
        report = json.loads(self.run_vestige(*base).stdout)
        self.assertEqual(set(report), {"model", "policy", "policy_chosen_by", "prompt_tokens", "text", "tokens", "finish_reason", "read_s", "decode_s", "stats"})
        drawn = [json.loads(self.run_vestige(*base, "--temp", 1, "--seed", seed).stdout)["tokens"] for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        self.expect(self.run_vestige("generate", "-m", self.model, "-f", self.document, "-n", 0), OK)

    def test_inspect(self):
        report = json.loads(self.run_vestige("inspect", self.context, "--json").stdout)
        self.assertEqual(set(report), {"kind", "file", "file_bytes", "vestige_version", "tokens", "policy", "model", "model_identity",
                                       "tokenizer_identity", "attention_layers", "calibration", "part_bytes"})
        self.assertEqual([set(layer) for layer in report["calibration"]], [{"layer", "z", "is_z_max"}])
        self.assertEqual([len(layer["z"]) for layer in report["calibration"]], [2])
        self.assertEqual(sum(report["part_bytes"].values()), self.context.stat().st_size)
        model = json.loads(self.run_vestige("inspect", self.model, "--json").stdout)
        self.assertEqual(model["model_identity"], report["model_identity"])
        self.assertEqual(model["window_tokens"], WINDOW)
        self.assertIn(b"model_identity", self.run_vestige("inspect", self.context).stdout)

    def test_append(self):
        """The bytes of having read everything at once: the part is long enough for the index to be fitted anew."""
        part, whole = self.folder / "part.txt", self.folder / "whole.txt"
        part.write_text(TEXT[::-1] * 3)
        whole.write_text(TEXT + TEXT[::-1] * 3)
        self.expect(self.compress(self.folder / "whole.vctx", document=whole), OK)
        grown = self.folder / "grown.vctx"
        shutil.copy(self.context, grown)
        done = self.run_vestige("append", grown, part)
        self.expect(done, OK)
        self.assertIn(b"1152 tokens behind 384", done.stdout)
        self.assertEqual(grown.read_bytes(), (self.folder / "whole.vctx").read_bytes())

    def test_append_json_to_another_file(self):
        before, output = self.context.read_bytes(), self.folder / "b.vctx"
        done = self.run_vestige("append", self.context, "-", "-o", output, "--json", input=b"And then?")
        self.expect(done, OK)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"file", "input", "model", "policy", "appended_bytes", "appended_tokens", "tokens", "output",
                                       "file_bytes", "rows", "read_s", "read_tokens_per_s", "write_s"})
        self.assertEqual((report["appended_tokens"], report["tokens"]), (9, len(TEXT) + 9))
        self.assertEqual(report["file_bytes"], output.stat().st_size)
        self.assertEqual(self.context.read_bytes(), before)
        self.expect(self.run_vestige("ask", output, "Who?", "-n", 2), OK)

    def test_append_errors_leave_the_file(self):
        grown, part = self.folder / "grown.vctx", self.folder / "part.txt"
        shutil.copy(self.context, grown)
        part.write_text("x" * WINDOW)
        damaged = self.folder / "damaged.vctx"
        damaged.write_bytes(self.context.read_bytes()[:-1])
        names = sorted(os.listdir(self.folder))
        self.expect(self.run_vestige("append", grown, "-", input=b""), INPUT, "empty")
        self.expect(self.run_vestige("append", grown, self.folder / "missing"), INPUT, "missing")
        self.expect(self.run_vestige("append", grown, part), INPUT, f"allows {WINDOW}")
        self.expect(self.run_vestige("append", grown, part, "-o", part), INPUT, "name another")
        self.expect(self.run_vestige("append", grown, "-", "-o", self.folder / "no" / "a.vctx", input=b"more"), SYSTEM)
        self.expect(self.run_vestige("append", damaged, "-", input=b"more"), INPUT, "damaged.vctx")
        self.expect(self.run_vestige("append", self.folder / "none.vctx", "-", input=b"more"), INPUT, "none.vctx")
        self.expect(self.run_vestige("append", grown), USAGE)
        self.assertEqual(grown.read_bytes(), self.context.read_bytes())
        self.assertEqual(sorted(os.listdir(self.folder)), names)

    def test_append_where_nothing_may_be_written(self):
        grown = self.folder / "grown.vctx"
        shutil.copy(self.context, grown)
        self.folder.chmod(0o555)
        options = {"user": 65534} if os.geteuid() == 0 else {}
        done = self.run_vestige("append", grown, "-", input=b"more", **options)
        self.folder.chmod(0o755)
        self.expect(done, SYSTEM, "Permission denied")
        self.assertEqual(grown.read_bytes(), self.context.read_bytes())

    def test_ask_and_keep(self):
        talk = self.folder / "talk.vctx"
        done = self.run_vestige("ask", self.context, "Who?", "What?", "-n", 3, "--keep", "-o", talk, "--json")
        self.expect(done, OK)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"file", "file_bytes", "tokens", "model", "policy", "open_s", "engine_s", "answers", "output",
                                       "output_bytes", "output_tokens"})
        said = sum(a["question_tokens"] + len(a["tokens"]) for a in report["answers"])
        self.assertEqual(report["output_tokens"], len(TEXT) + said)
        self.assertEqual(report["output_bytes"], talk.stat().st_size)
        # One question after the other, in processes of their own, replacing the file: the same bytes.
        steps = self.folder / "steps.vctx"
        shutil.copy(self.context, steps)
        for question in ("Who?", "What?"):
            self.expect(self.run_vestige("ask", steps, question, "-n", 3, "--keep"), OK)
        self.assertEqual(steps.read_bytes(), talk.read_bytes())
        self.assertEqual(json.loads(self.run_vestige("inspect", talk, "--json").stdout)["tokens"], len(TEXT) + said)
        self.expect(self.run_vestige("append", talk, "-", input=b"It went on."), OK)

    def test_ask_keeps_nothing_unless_told(self):
        before = self.context.read_bytes()
        self.expect(self.run_vestige("ask", self.context, "Who?", "-n", 2), OK)
        self.assertEqual(self.context.read_bytes(), before)
        self.expect(self.run_vestige("ask", self.context, "Who?", "-o", self.folder / "a.vctx"), USAGE, "--keep")
        self.expect(self.run_vestige("ask", self.context, "Who?", "--keep", "--policy", "full"), USAGE)
        self.expect(self.run_vestige("ask", self.context, "Who?", "--keep", "-o", self.folder / "no" / "a.vctx"), SYSTEM)
        self.expect(self.run_vestige("ask", self.context, "x" * 5000, "--keep", "-o", self.folder / "a.vctx"), INPUT, str(WINDOW))
        self.expect_empty()

    def test_settings_with_choices(self):
        output = self.folder / "a.vctx"
        done = self.compress(output, "--set", "schedule=constant", "--set", "n_keep=30", "--json")
        self.expect(done, OK)
        report = json.loads(done.stdout)
        self.assertEqual(report["policy"]["settings"], {"n_keep": 30, "schedule": "constant"})
        self.assertLessEqual(report["rows"]["kept"], 34)
        self.assertGreaterEqual(report["rows"]["kept"], 30)
        settings = json.loads(self.run_vestige("inspect", output, "--json").stdout)["policy"]["settings"]
        self.assertEqual((settings["schedule"], settings["n_keep"]), ("constant", 30))
        self.assertIn("bandwidth", settings)  # those left at their defaults too
        self.expect(self.compress(output, "--set", "schedule=never"), USAGE, "schedule=never", "proportional, constant")
        self.assertIn(b"proportional, constant", self.run_vestige("compress", "--help").stdout.replace(b"\n", b" "))

    def test_completion(self):
        for shell in ("bash", "zsh", "fish"):
            done = self.run_vestige("completion", shell)
            self.expect(done, OK)
            self.assertIn(b"compress", done.stdout)
            if shutil.which(shell):
                checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True)
                self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_environment(self):
        done = self.run_vestige("generate", "-p", "dark", "-n", 1, env={"VESTIGE_MODEL": str(self.model), "VESTIGE_THREADS": "1"})
        self.expect(done, OK)
        self.expect(self.run_vestige("inspect", self.model, env={"VESTIGE_THREAD": "1"}), USAGE, "VESTIGE_THREAD")
        self.expect(self.run_vestige("generate", "-m", self.model, "-p", "a", env={"VESTIGE_THREADS": "many"}), USAGE)

    # Documents.

    def test_any_bytes(self):
        document = self.folder / "bytes"
        document.write_bytes(bytes(range(256)) + b"\0\0\xff\xfe\xc3(" + "ä😀".encode()[:-1])
        self.expect(self.compress(self.folder / "a.vctx", document=document), OK)
        self.expect(self.run_vestige("ask", self.folder / "a.vctx", b"\xff\0?".replace(b"\0", b"").decode(errors="surrogateescape"),
                                     "-n", 3, "--json"), OK)

    def test_empty_document(self):
        for document, options in (("/dev/null", {}), ("-", {"input": b""})):
            self.expect(self.compress(self.folder / "a.vctx", document=document, **options), INPUT, "empty")
        self.expect_empty()

    def test_too_long(self):
        self.expect(self.run_vestige("ask", self.context, "x" * 5000), INPUT, str(WINDOW))
        self.expect(self.run_vestige("ask", self.context, "Who?", "x" * 5000), INPUT, str(WINDOW))
        done = self.compress(self.folder / "a.vctx", document="-", input=b"x" * (WINDOW + 1))
        self.expect(done, INPUT, str(WINDOW + 1), f"allows {WINDOW}")
        self.expect_empty()

    def test_wrong_paths(self):
        missing = self.folder / "missing"
        self.expect(self.compress(self.folder / "a.vctx", document=missing), INPUT, "missing")
        self.expect(self.compress(self.folder / "a.vctx", document=self.folder), INPUT, "folder")
        self.expect(self.compress(self.folder), INPUT, "not a regular file")
        self.expect(self.run_vestige("ask", missing, "Who?"), INPUT, "missing")
        self.expect(self.run_vestige("ask", self.context, "Who?", "-m", missing), INPUT, "missing")
        self.expect(self.run_vestige("inspect", missing), INPUT, "missing")
        self.expect(self.run_vestige("generate", "-m", self.shared, "-p", "a"), INPUT)
        self.expect(self.compress(missing / "a.vctx"), SYSTEM, "missing")
        self.expect_empty()

    # Files.

    def test_damaged_files(self):
        data = bytearray(self.context.read_bytes())
        bad = self.folder / "bad.vctx"
        for change in ("cut", "flip", "empty", "text"):
            flipped = data[:]
            flipped[len(data) // 2] ^= 4
            bad.write_bytes({"cut": data[:-1], "flip": flipped, "empty": b"", "text": b"hello"}[change])
            for command in (("ask", bad, "Who?"), ("inspect", bad)):
                self.expect(self.run_vestige(*command), INPUT, "bad.vctx")

    def test_python_opens_it(self):
        python = ROOT / ".venv" / "bin" / "python"
        if not python.exists() or subprocess.run([python, "-c", "import safetensors"], capture_output=True).returncode:
            self.skipTest("no safetensors package in .venv (scripts/setup.sh --python)")
        done = subprocess.run([python, ROOT / "scripts" / "check_vctx.py", self.context], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_wrong_model(self):
        other = make_model(self.folder / "other", "\n")
        self.expect(self.run_vestige("ask", self.context, "Who?", "-m", other), INPUT, "another model")

    def test_existing_output_is_replaced_whole(self):
        output = self.folder / "a.vctx"
        output.write_bytes(b"old")
        before = output.stat().st_ino
        self.expect(self.compress(output, document="/dev/null"), INPUT)
        self.assertEqual(output.read_bytes(), b"old")
        self.expect(self.compress(output), OK)
        self.assertNotEqual(output.stat().st_ino, before)
        self.assertEqual(output.read_bytes(), self.context.read_bytes())

    def test_output_keeps_the_mode_and_the_link(self):
        output, link = self.folder / "a.vctx", self.folder / "b.vctx"
        output.write_bytes(b"old")
        output.chmod(0o600)
        link.symlink_to(output)
        self.expect(self.compress(link), OK)
        self.assertTrue(link.is_symlink())
        self.assertEqual(output.stat().st_mode & 0o777, 0o600)
        self.assertEqual(output.read_bytes(), self.context.read_bytes())

    def test_output_over_its_own_input(self):
        document = self.folder / "doc.txt"
        document.write_text(TEXT)
        self.expect(self.compress(document, document=document), INPUT, "name another")
        self.assertEqual(document.read_text(), TEXT)
        weights = self.model / "model.safetensors"
        before = weights.read_bytes()
        self.expect(self.compress(weights), INPUT, "name another")
        self.assertEqual(weights.read_bytes(), before)
        self.expect(self.compress(""), INPUT, "empty")

    def test_stdout_that_cannot_be_written(self):
        for args in (["ask", self.context, "Who?"], ["ask", self.context, "Who?", "--json"], ["--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([VESTIGE, *map(str, args)], stdout=full, stderr=subprocess.PIPE, timeout=300)
            self.assertEqual(done.returncode, SYSTEM, args)

    def test_file_size_limit(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        self.expect(self.compress(self.folder / "a.vctx", preexec_fn=limit), SYSTEM, "a.vctx", "too large")
        self.expect_empty()

    def test_full_disk(self):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(self.folder)], capture_output=True)
        if mounted.returncode != 0:
            print("SKIP test_full_disk: may not mount a tmpfs here", file=sys.stderr)
            self.skipTest("may not mount a tmpfs here")
        try:
            self.expect(self.compress(self.folder / "a.vctx"), SYSTEM, "No space left")
            self.expect_empty()
        finally:
            subprocess.run(["umount", str(self.folder)], check=True)

    def test_unwritable_folder(self):
        self.folder.chmod(0o555)
        options = {"user": 65534} if os.geteuid() == 0 else {}
        done = self.compress(self.folder / "a.vctx", **options)
        self.folder.chmod(0o755)
        self.expect(done, SYSTEM, "Permission denied")
        self.expect_empty()

    # Flags.

    def test_absurd_flags(self):
        for args, word in ((["--ratio", "0"], "ratio"), (["--ratio", "x"], "ratio"), (["--keep", "2"], "keep"),
                           (["--policy", "kivi", "--ratio", "10"], "bytes of policy kivi"),
                           (["--threads", "100000"], "threads"), (["--policy", "best"], "streaming"), (["--set", "speed=9"], "speed"),
                           (["--set", "speed"], "name=number"), (["--block-rows", "1"], "block"), (["--unknown"], "unknown")):
            self.expect(self.run_vestige("compress", "-m", self.model, "-i", self.document, "-o", self.folder / "a.vctx", *args), USAGE, word)
        self.expect(self.run_vestige("ask", self.context, "Who?", "-n", "-1"), USAGE)
        for temperature in ("-1", "nan"):
            self.expect(self.run_vestige("generate", "-m", self.model, "-p", "a", "--temp", temperature), USAGE)
        for args in ([], ["compress"], ["ask", self.context], ["generate", "-m", self.model], ["fly"]):
            self.expect(self.run_vestige(*args), USAGE)
        self.expect(self.run_vestige("compress", "-m", self.model, "-i", self.document), USAGE, "--output")
        self.expect_empty()

    # Ctrl-C. The ref backend is slow enough to be caught reading; the bar on a terminal says when it does.

    def interrupt(self, n_signals, kind, command=("compress", "-i")):
        long = self.shared / "long.txt"
        long.write_bytes(b"night " * (WINDOW // 6 - 100))
        master, terminal = pty.openpty()
        with subprocess.Popen([VESTIGE, *command, long, "-m", self.model, "-o", self.folder / "a.vctx", "--backend", "ref"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal) as process:
            seen = b""
            while b"reading [" not in seen:
                seen += os.read(master, 1024)
            for _ in range(n_signals):
                process.send_signal(kind)
                time.sleep(0.05)
            code = process.wait(timeout=120)
        os.close(terminal)
        os.close(master)
        self.assertEqual(code, INTERRUPTED)
        self.expect_empty()

    def test_interrupt_leaves_no_file(self):
        self.interrupt(1, signal.SIGINT)

    def test_terminate_leaves_no_file(self):
        self.interrupt(1, signal.SIGTERM)

    def test_interrupt_of_append_leaves_no_file(self):
        before = self.context.read_bytes()
        self.interrupt(1, signal.SIGINT, ("append", self.context))
        self.assertEqual(self.context.read_bytes(), before)

    def test_second_interrupt_ends_at_once(self):
        start = time.monotonic()
        self.interrupt(2, signal.SIGINT)
        self.assertLess(time.monotonic() - start, 60)

    def test_interrupt_while_stdin_is_open(self):
        with subprocess.Popen([VESTIGE, "compress", "-m", self.model, "-i", "-", "-o", self.folder / "a.vctx"], stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=30), INTERRUPTED)
        self.expect_empty()


if __name__ == "__main__":
    VESTIGE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
