"""The table by rule."""
import collections
import json

import judge


class Run:
    """One toolchain, one seed."""

    def __init__(self, toolchain, seed, cases, asked, seconds, hello):
        self.toolchain, self.seed, self.cases, self.asked, self.seconds = toolchain, seed, cases, asked, seconds
        self.hello = hello

    def disagreements(self):
        return sum(1 for c in self.cases if c.outcome and c.outcome not in judge.AGREED)


def by_rule(cases):
    """Counts of outcomes by (rule, side): "refused" are plans we refuse by it, "neighbour" plans just beyond it."""
    counts = collections.defaultdict(collections.Counter)
    for case in cases:
        if not case.outcome:
            continue
        rule = None if judge.accepts(case.line) else case.line["rule"]
        if rule:
            counts[rule, "refused"][case.outcome] += 1
        elif case.role != "neighbour":
            counts[None, "draw"][case.outcome] += 1
        if case.role == "neighbour" and rule != case.bucket[0]:
            counts[case.bucket[0], "neighbour"][case.outcome] += 1
    return counts


def table(runs, moefs):
    rules = json.loads(moefs.run(["boundaries", "--json", "--model", "deepseek-v2-lite", "--cluster", "8xh800"]))["rules"]
    lines = []
    for toolchain in dict.fromkeys(run.toolchain for run in runs):
        cases = [c for run in runs if run.toolchain == toolchain for c in run.cases]
        counts = by_rule(cases)
        prefix = ("mcore.", "te.", "plan.", "model.") if toolchain.startswith("megatron") else ("sglang.", "plan.")
        lines += [f"## {toolchain}", "", "| rule | stage | evidence | refused by both | past the witness or ours | accepted beside it | other beside it | false rejects | false accepts | rewrites | other reason |",
                  "|---|---|---|---|---|---|---|---|---|---|---|"]
        for rule in dict.fromkeys((r["id"]) for r in rules):
            if not rule.startswith(prefix):
                continue
            refused, beside = counts[rule, "refused"], counts[rule, "neighbour"]
            first = next(r for r in rules if r["id"] == rule)
            both = refused + beside
            lines.append(f"| {rule} | {first['stage']} | {first['evidence']} | {refused[judge.REFUSED]} | {refused[judge.UNREACHED] + refused[judge.OURS]} "
                         f"| {beside[judge.ACCEPTED]} | {beside[judge.REFUSED] + beside[judge.UNREACHED] + beside[judge.OURS]} "
                         f"| {both[judge.FALSE_REJECT]} | {both[judge.FALSE_ACCEPT]} | {both[judge.REWRITE]} | {both[judge.REASON]} |")
        draws = counts[None, "draw"]
        lines.append(f"| accepted draws | | | | | {draws[judge.ACCEPTED]} | | | {draws[judge.FALSE_ACCEPT]} | {draws[judge.REWRITE]} | |")
        lines.append("")
    return "\n".join(lines)
