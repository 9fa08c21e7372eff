"""Published layer shapes, as `megamoe bench` knows them, without numpy so that ./run can check its arguments alone."""

KEYWORDS = {
    "qwen3-30b": dict(hidden=2048, intermediate=768, num_experts=128, top_k=8),
    "v4-flash": dict(hidden=4096, intermediate=2048, num_experts=256, top_k=6),
    "gpt-oss-20b": dict(hidden=2880, intermediate=2880, num_experts=32, top_k=4, alpha=1.702, up_offset=1.0, limit=7.0,
                        has_biases=True),
}


def parse(text):
    """Keywords of layer.Shape for a name of the table or for 'H,I,E,k'. ValueError: anything else."""
    if text in KEYWORDS:
        return dict(name=text, **KEYWORDS[text])
    numbers = [int(part) for part in text.split(",")]
    if len(numbers) != 4 or min(numbers) < 1 or numbers[3] > numbers[2]:
        raise ValueError(text)
    return dict(name=text, **dict(zip(("hidden", "intermediate", "num_experts", "top_k"), numbers)))
