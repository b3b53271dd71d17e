"""docs/ORACLE.md: what was asked, what the packages said, by rule."""
import collections
import json

import flags
import judge


class Run:
    """One toolchain and seed, or the best plans of the built-in models."""

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


def rule_table(cases, rules, megatron):
    counts = by_rule(cases)
    lines = ["| rule | stage | refused by both | refused by us, past the witness or without words | accepted beside it | refused beside it "
             "| false rejects | false accepts | rewrites | another reason |", "|---|---|---|---|---|---|---|---|---|---|"]
    unmet = []
    for rule in dict.fromkeys(r["id"] for r in rules):
        refused, beside = counts[rule, "refused"], counts[rule, "neighbour"]
        both = refused + beside
        if not both:
            unmet.append(rule)
            continue
        stage = next(r["stage"] for r in rules if r["id"] == rule)
        others = beside[judge.REFUSED] + beside[judge.UNREACHED] + beside[judge.OURS]
        lines.append(f"| {rule} | {stage} | {refused[judge.REFUSED]} | {refused[judge.UNREACHED] + refused[judge.OURS]} "
                     f"| {beside[judge.ACCEPTED]} | {others} | {both[judge.FALSE_REJECT]} | {both[judge.FALSE_ACCEPT]} "
                     f"| {both[judge.REWRITE]} | {both[judge.REASON]} |")
    draws = counts[None, "draw"]
    lines.append(f"| accepted, drawn at random |  |  |  | {draws[judge.ACCEPTED]} |  |  | {draws[judge.FALSE_ACCEPT]} | {draws[judge.REWRITE]} |  |")
    prefix = ("mcore.", "te.") if megatron else ("sglang.",)
    named = [rule for rule in unmet if rule.startswith(prefix)]
    if named:
        lines += ["", "No case here (another version's, or of inputs that were not drawn): " + ", ".join(named) + "."]
    return lines


def describe(runs, rules, parser_flags):
    toolchain = runs[0].toolchain
    megatron = toolchain.startswith("megatron")
    drawn = [r for r in runs if r.seed != "top"]
    tops = [r for r in runs if r.seed == "top"]
    cases = [c for r in drawn for c in r.cases if c.outcome]
    lines = [f"## {toolchain}", ""]
    if drawn:
        counts = collections.Counter(c.outcome for c in cases)
        plans = len({(c.scene.key(), c.text) for c in cases})
        models = len({c.scene.model for c in cases})
        judged = len({(c.scene.key(), c.text) for c in cases if c.outcome != judge.OURS})
        lines += [f"Seeds {' and '.join(str(r.seed) for r in drawn)}: {plans} distinct plans, {judged} of them judged by the package, over {models} "
                  f"models, {len({c.scene.cluster for c in cases})} clusters and {len({c.scene.key() for c in cases})} combinations of inputs; "
                  f"{sum(r.asked for r in drawn)} distinct commands. "
                  + ", ".join(f"{counts[name]} {name}" for name in judge.AGREED) + "; "
                  + ", ".join(f"**{counts[name]} {name}**" for name in (judge.FALSE_ACCEPT, judge.FALSE_REJECT, judge.REWRITE, judge.REASON)) + ".", ""]
        hello = drawn[0].hello
        if hello:
            lines += [f"The witness of `job/witness`, package {hello['version']}. Not asked: {'; '.join(hello['skipped'])}.", ""]
        else:
            lines += ["A witness that goes on to build the model on tensors that are shapes alone, to the attention backend, the captured "
                      "batches and the look-ups of a first request (`--deep`); it is not part of this repository. That of `job/witness` ends "
                      "with the process groups.", ""]
    for run in tops:
        counts = collections.Counter(c.outcome for c in run.cases)
        lines += [f"The best 20 plans that we call buildable, of every built-in model on every built-in cluster: {len(run.cases)} plans of "
                  f"{len({c.scene.model for c in run.cases})} models (the others are refused by name), {run.asked} distinct commands: "
                  f"{counts[judge.ACCEPTED]} accepted, {len(run.cases) - counts[judge.ACCEPTED]} not."
                  + (" Asked up to the process groups." if run.hello and not megatron else ""), ""]
    if drawn:
        lines += rule_table(cases, rules, megatron) + [""]
    if parser_flags:
        written = {w for r in runs for c in r.cases for w in c.line["argv"] or [] if w.startswith("--")}
        total, mine, left = flags.share(toolchain.split("-")[0], parser_flags, written)
        number = len(mine) + sum(len(names) for _, names in left)
        lines += [f"**Flags.** The parser of the package has {total}. {number} bear on a plan; the commands above hold {len(mine)} of them "
                  f"({100 * len(mine) / number:.0f} %). Left:", "", "| flags | why |", "|---|---|"]
        lines += [f"| {len(names)}: {', '.join(names)} | {reason} |" for reason, names in left]
        lines += [""]
    return lines


def document(runs, skipped, parser_flags, moefs):
    rules = json.loads(moefs.run(["boundaries", "--json", "--model", "deepseek-v2-lite", "--cluster", "8xh800"]))["rules"]
    lines = ["# What the real packages say", "",
             "Written by `tests/oracle/run`; do not edit. It draws plans from the wide space and from the edges of every rule, asks the",
             "toolchains' own argument, configuration and layout code about their commands, and counts by rule. `--packages FOLDER` reuses",
             "unpacked packages, `--fresh SEED` repeats a run, `--help` says the rest. CI runs `tests/oracle/run --quick` on a fixed and a",
             "fresh seed.", "",
             "*Refused by both*: same stage, same message. *Past the witness*: we refuse by a rule that stands behind what a CPU can run, and",
             "the package accepts up to there. *Without words* (ours alone): the command line cannot say the plan, or a package is missing",
             "that the witness replaces. *Beside*: a plan or an input that differs in one part and passes the rule. *Rewrite*: accepted, but",
             "as another plan than asked. *Another reason*: both refuse, with another stage or message.", ""]
    for toolchain in dict.fromkeys(run.toolchain for run in runs):
        lines += describe([r for r in runs if r.toolchain == toolchain], rules, parser_flags.get(toolchain))
    for toolchain, why in skipped:
        lines += [f"## {toolchain}", "", f"**Skipped**: {why}", ""]
    return "\n".join(lines)
