"""bench/plot_record.py: what it draws of a tiny record, and what it says of files that are none."""

import contextlib
import copy
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import plot_record

SVG = "{http://www.w3.org/2000/svg}"


def row(tokens, us, of_read, of_compute, shape="v4-flash"):
    return {"backend": "sm90", "shape": shape, "format": "fp8", "tokens": tokens, "ranks": 1, "one_rank_of": 8,
            "median_us": us, "fraction_of_read": of_read, "fraction_of_compute": of_compute}


RECORD = {
    "kind": "megamoe bench", "date": "2026-11-30T01:30:00Z", "version": "0.1.0", "command": ["megamoe", "bench"],
    "machine": {"cpu": "C", "gpus": [], "gpu": {"name": "NVIDIA H200", "driver": "580.159", "max_sm_clock_mhz": 1980,
                                                "power_limit_watts": 700.0}},
    "ceilings": {"gflops": 1425000.0, "arithmetic": "FP8 <products>", "no_gflops": None, "read_gbytes_per_s": 4615.0},
    "rows": [row(16, 200.0, 0.84, 0.02), row(128, 250.0, 0.7, 0.1), row(8192, 2200.0, 0.08, 0.79),
             row(128, 900.0, 0.6, None, "a<b")],
}


class Chart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return str(path)

    def draw(self, *values):
        """(exit code, standard error, root of the SVG or None)."""
        out = self.folder / "out.svg"
        names = [self.write(f"record{i}.json", value) for i, value in enumerate(values)]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = plot_record.main([*names, str(out)])
        return code, said.getvalue(), ElementTree.parse(out).getroot() if out.exists() else None

    @staticmethod
    def titles(root, tag):
        return {title.text: element for element in root.iter(SVG + tag) for title in element.iter(SVG + "title")}

    def test_every_row_is_a_point_with_its_numbers(self):
        code, said, root = self.draw(RECORD)
        self.assertEqual((code, said), (0, ""))
        points = self.titles(root, "circle")
        for label in ("MegaMoE, sm90: 16 tokens, 200.0 us", "MegaMoE, sm90: 16 tokens, 84.0 %",
                      "MegaMoE, sm90: 8192 tokens, 79.0 %", "MegaMoE, sm90: 128 tokens, 60.0 %"):
            self.assertIn(label, points)
        self.assertEqual(len(points), 8)

    def test_slower_is_higher_and_more_tokens_further_right(self):
        _, _, root = self.draw(RECORD)
        few, many = (self.titles(root, "circle")[f"MegaMoE, sm90: {words}"]
                     for words in ("16 tokens, 200.0 us", "8192 tokens, 2200.0 us"))
        self.assertGreater(float(few.get("cy")), float(many.get("cy")))
        self.assertLess(float(few.get("cx")), float(many.get("cx")))

    def test_peers_stand_in_their_panel_alone(self):
        _, _, root = self.draw(RECORD)
        peers = self.titles(root, "rect")
        self.assertIn("best fused peer: 8192 tokens, 3161.0 us", peers)
        self.assertIn("unfused chain of peers: 1024 tokens, 459.0 us", peers)
        self.assertNotIn("best fused peer: 128 tokens, 840.0 us", peers)  # V4-Pro's

    def test_machine_ceilings_and_shapes_are_told(self):
        _, _, root = self.draw(RECORD)
        words = " ".join(element.text for element in root.iter(SVG + "text"))
        for part in ("2026-11-30, NVIDIA H200, driver 580.159", "4615 GB/s read", "1425.0 TFLOP/s (FP8 <products>)",
                     "v4-flash, one rank of 8, fp8", "a<b, one rank of 8, fp8"):
            self.assertIn(part, words)

    def test_the_ceiling_is_the_share_of_the_time(self):
        panels = plot_record.own_panels([RECORD])
        panel = panels[plot_record.Key("v4-flash", "fp8", 8, 1)]
        self.assertEqual([(tokens, round(us, 6)) for tokens, us in plot_record.ceiling_points(panel)],
                         [(16, 168.0), (128, 175.0), (8192, 1738.0)])

    def test_two_records_share_panels(self):
        chain = copy.deepcopy(RECORD)
        for each in chain["rows"]:
            each["backend"] = "chain"
        _, _, root = self.draw(RECORD, chain)
        points = self.titles(root, "circle")
        self.assertEqual(len(points), 16)
        colors = {points[f"MegaMoE, {name}: 16 tokens, 200.0 us"].get("fill") for name in ("sm90", "chain")}
        self.assertEqual(len(colors), 2)

    def test_rows_without_tokens_have_no_place(self):
        record = copy.deepcopy(RECORD)
        record["rows"].append(row(0, 20.0, 0.0, 0.0))
        self.assertEqual(len(self.titles(self.draw(record)[2], "circle")), 8)

    def test_what_is_no_record_is_told_by_rule_value_and_remedy(self):
        no_share = copy.deepcopy(RECORD)
        del no_share["rows"][0]["fraction_of_read"]
        for value, word in (("{", "readable JSON"), ([], "another file"), ({"kind": "x"}, "another file"),
                            (dict(RECORD, rows=[]), "must have rows"), (no_share, "fraction_of_read"),
                            (dict(RECORD, rows=[row(0, 1.0, 0.0, 0.0)]), "at least one token")):
            code, said, root = self.draw(value)
            self.assertEqual(code, 2, word)
            self.assertIn(word, said)
            self.assertIn("(got ", said)
            self.assertIn(";", said)
            self.assertIsNone(root)

    def test_a_folder_that_is_not_there_is_told(self):
        name = self.write("record.json", RECORD)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(plot_record.main([name, "/nonexistent/out.svg"]), 2)
        self.assertIn("must be writable", said.getvalue())


class Peers(unittest.TestCase):
    def test_every_row_has_a_place_and_a_time(self):
        peers = json.loads(plot_record.PEERS.read_text(encoding="utf-8"))
        keys = [(r["shape"], r["format"], r["one_rank_of"], r["ranks"], r["tokens"]) for r in peers["rows"]]
        self.assertEqual(len(set(keys)), len(keys))
        for each in peers["rows"]:
            self.assertGreater(each["best_fused_us"], 0)


if __name__ == "__main__":
    unittest.main()
