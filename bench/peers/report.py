"""Rows of MegaMoE and of its peers, side by side."""

PEER_ORDER = ("MegaMoE", "ggml", "kt-kernel")
HEADINGS = ("tokens", "peer", "format", "median ms", "min ms", "x MegaMoE", "x min", "of read", "of compute")
CEILINGS = {"ceiling_read_gbytes_per_s": "fraction_of_read", "ceiling_gflops": "fraction_of_compute"}


def megamoe_row(result):
    """One object of `megamoe bench --json` as a row."""
    return {"peer": "MegaMoE", "shape": result["shape"], "weights": result["format"], "tokens": result["tokens"],
            "format": {"mxfp4": "MXFP4", "fp8": "FP8 128x128", "bf16": "BF16"}[result["format"]],
            "version": result["version"], "kernels": result["plan"]["isa"], "calls": result["calls"],
            "median_ms": result["median_us"] / 1e3, "min_ms": result["min_us"] / 1e3, "max_ms": result["max_us"] / 1e3,
            "fraction_of_read": result["fraction_of_read"], "fraction_of_compute": result["fraction_of_compute"],
            "ceiling_read_gbytes_per_s": result["ceiling_read_gbytes_per_s"],
            "ceiling_gflops": result["ceiling_gflops"]}


def best_rounds(rows):
    """Of several rounds of the same measurement, the one with the lowest median."""
    best = {}
    for row in rows:
        key = (row["shape"], row["weights"], row["tokens"], row["peer"])
        if key not in best or row.get("median_ms", 0) < best[key].get("median_ms", 0):
            best[key] = row
    for ceiling, fraction in CEILINGS.items():
        for row in best.values():
            if ceiling in row:
                # A ceiling measured while others had the machine would flatter a round that was not disturbed.
                highest = max(each[ceiling] for each in rows if ceiling in each)
                row[fraction] *= row[ceiling] / highest
                row[ceiling] = highest
    return list(best.values())


def with_ratios(rows):
    """Adds ratio_of_medians and ratio_of_minima, a peer's time over MegaMoE's: above 1, MegaMoE is faster."""
    own = {(row["shape"], row["weights"], row["tokens"]): row for row in rows if row["peer"] == "MegaMoE"}
    for row in rows:
        base = own.get((row["shape"], row["weights"], row["tokens"]))
        if base and row is not base and "median_ms" in row:
            row["ratio_of_medians"] = row["median_ms"] / base["median_ms"]
            row["ratio_of_minima"] = row["min_ms"] / base["min_ms"]
    return sorted(rows, key=lambda row: PEER_ORDER.index(row["peer"]))


def three_digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cells(row):
    def number(key):
        return f"{row[key]:.2f}" if key in row else ""

    def time(key):
        return three_digits(row[key]) if key in row else ""

    if "not_run" in row:
        return [str(row["tokens"]), row["peer"], row["format"], row["not_run"]] + [""] * (len(HEADINGS) - 4)
    return [str(row["tokens"]), row["peer"], row["format"], time("median_ms"), time("min_ms"),
            number("ratio_of_medians"), number("ratio_of_minima"), number("fraction_of_read"),
            number("fraction_of_compute")]


def table(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    # Words to the left, numbers to the right.
    return "\n".join("  ".join(text.ljust(width) if i in (1, 2) else text.rjust(width)
                               for i, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def to_text(rows, skipped):
    parts = []
    for shape, weights in dict.fromkeys((row["shape"], row["weights"]) for row in rows):
        group = [row for row in rows if (row["shape"], row["weights"]) == (shape, weights)]
        group.sort(key=lambda row: row["tokens"])
        parts.append(f"{shape}, {weights}" + ceilings(group) + "\n" + table([HEADINGS, *map(cells, group)]))
        for peer, text in dict.fromkeys((row["peer"], provenance(row)) for row in group):
            parts.append(f"  {peer}: {text}")
        parts.append("")
    parts += [f"skipped: {each['peer']}{each['where']}: {each['reason']}; {each['remedy']}" for each in skipped]
    return "\n".join(parts)


def ceilings(group):
    for row in group:
        if row["peer"] == "MegaMoE":
            return (f" (ceilings {row['ceiling_read_gbytes_per_s']:.1f} GB/s read, "
                    f"{row['ceiling_gflops']:.0f} GFLOP/s multiply-add)")
    return ""


def provenance(row):
    error = f", error {row['error']:.1e}" if "error" in row else ""
    return f"{row['version']}, kernels {row['kernels']}{error}"
