"""Cases: which plans, on which scenes, are asked. Drawn from the whole space and steered to the edges of every rule."""
import collections
import concurrent.futures
import json
import re
import subprocess

import inputs
import plans


class Case:
    """A plan on a scene, why it was drawn, and moefs' line for it."""

    def __init__(self, scene, text, role, bucket=None):
        self.scene, self.text, self.role, self.bucket = scene, text, role, bucket
        self.line = self.answer = self.outcome = self.detail = None

    def key(self):
        return self.scene.key(), self.text


def bucket_of(line):
    """What refuses a plan: the rule and its text without the numbers. None for an accepted plan."""
    if line["verdict"] == "buildable" or line["rule"] == "memory":
        return None
    return line["rule"], re.sub(r"\d+", "#", line["reason"] or "")[:110]


class Moefs:
    """The program under test, asked scene by scene."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.clusters = {}

    def run(self, arguments, text=None):
        done = subprocess.run([self.binary, *arguments], input=text, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"moefs {' '.join(arguments)}\n{done.stderr}")
        return done.stdout

    def judge(self, scene, texts, forced=False):
        options, _ = scene.files(self.folder)
        out = self.run(["search", *options, "--emit", "jsonl", "--plans", "-", *(["--forced"] if forced else [])],
                       "\n".join(texts) + "\n")
        return [json.loads(line) for line in out.splitlines()]

    def sample(self, scene, count, seed):
        """Plans drawn uniformly from the wide space."""
        options, _ = scene.files(self.folder)
        out = self.run(["search", *options, "--space", "wide", "--emit", "jsonl", "--sample", str(count), "--seed", str(seed)])
        return [json.loads(line) for line in out.splitlines()]

    def best(self, scene, count):
        """The best plans that can be built."""
        out = self.run(["search", *scene.files(self.folder)[0], "--emit", "jsonl", "--top", str(count), "--threads", "1"])
        return [line for line in map(json.loads, out.splitlines()) if line["verdict"] == "buildable"]

    def cluster(self, name):
        if name not in self.clusters:
            self.clusters[name] = json.loads(self.run(["cluster", name, "--json"]))
        return self.clusters[name]

    def world(self, name):
        cluster = self.cluster(name)
        return cluster["gpus_per_node"] * cluster["nodes"]


def spread(cases, count, rng):
    """`count` of the cases, models taking turns, so that a rule is not asked about one model alone."""
    by_model = collections.defaultdict(list)
    for case in cases:
        by_model[case.scene.model].append(case)
    lists = list(by_model.values())
    rng.shuffle(lists)
    for one in lists:
        rng.shuffle(one)
    taken = []
    while lists and len(taken) < count:
        for one in list(lists):
            if len(taken) == count:
                break
            taken.append(one.pop())
            if not one:
                lists.remove(one)
    return taken


def parallel(function, items, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(function, items))


def pool_of(moefs, toolchain, rng, per_scene, jobs, only):
    """Candidates with verdicts: the wide space of every scene, and plans made to be near the edges."""
    make = plans.train if toolchain.startswith("megatron") else plans.serve
    work = []
    for scene in inputs.scenes(toolchain, rng, only):
        world = moefs.world(scene.cluster)
        model = inputs.config(scene.model)
        texts = {plans.text(make(rng, world, model), scene.phase): None for _ in range(per_scene)}
        work.append((scene, list(texts), rng.randrange(1 << 30)))

    def judge(item):
        scene, texts, seed = item
        lines = [(Case(scene, line["plan"], "edge"), line) for line in moefs.judge(scene, texts)]
        return lines + [(Case(scene, line["plan"], "space"), line) for line in moefs.sample(scene, max(per_scene // 4, 1), seed)]

    seen, found = set(), []
    for lines in parallel(judge, work, jobs):
        for case, line in lines:
            if case.key() not in seen:
                seen.add(case.key())
                case.bucket = bucket_of(line)
                found.append(case)
    return found


def accepted_sides(moefs, refused, wanted, rng, jobs):
    """For every bucket up to `wanted` neighbours of its refused plans that the rule lets through, accepted ones first."""
    through = collections.defaultdict(lambda: ([], []))

    def judge(items):
        texts = list({text: None for _, text, _ in items})
        lines = dict(zip(texts, moefs.judge(items[0][0], texts)))
        return [(Case(scene, lines[text]["plan"], "neighbour", bucket), bucket_of(lines[text])) for scene, text, bucket in items]

    # Again with other refused plans where too few neighbours of the first were accepted.
    for start in range(0, 6 * wanted, 2 * wanted):
        by_scene = collections.defaultdict(list)
        for bucket, cases in refused.items():
            if len(through[bucket][0]) >= wanted:
                continue
            for case in cases[start:start + 2 * wanted]:
                texts = plans.neighbours(case.text, case.scene.phase, moefs.world(case.scene.cluster), inputs.config(case.scene.model))
                for text in rng.sample(texts, min(len(texts), 120)):
                    by_scene[case.scene.key()].append((case.scene, text, bucket))
                for sibling in case.scene.siblings():
                    by_scene[sibling.key()].append((sibling, case.text, bucket))
        for found in parallel(judge, list(by_scene.values()), jobs):
            for case, verdict in found:
                if verdict is None:
                    through[case.bucket][0].append(case)
                elif verdict[0] != case.bucket[0]:
                    through[case.bucket][1].append(case)
    chosen = []
    for accepted, others in through.values():
        taken = spread(accepted, wanted, rng)
        chosen += taken + spread(others, max(wanted - len(taken), 0), rng)
    return chosen


def draw(moefs, toolchain, rng, per_scene, edge, total, jobs, only=None):
    """Cases to ask: `edge` refused plans and neighbours of every bucket, and the rest at random up to `total`."""
    pool = pool_of(moefs, toolchain, rng, per_scene, jobs, only)
    buckets = collections.defaultdict(list)
    for case in pool:
        if case.bucket:
            buckets[case.bucket].append(case)
    refused = {bucket: spread(cases, 6 * edge, rng) for bucket, cases in buckets.items()}
    chosen = {}
    for cases in refused.values():
        for case in cases[:edge]:
            case.role = "refused"
            chosen[case.key()] = case
    for case in accepted_sides(moefs, refused, edge, rng, jobs):
        chosen.setdefault(case.key(), case)
    rng.shuffle(pool)
    # At random: the accepted first in half of what is left, then whatever comes.
    left = total - len(chosen)
    for wanted, some in ((left // 2, [c for c in pool if not c.bucket]), (left, pool)):
        for case in some:
            if len(chosen) >= total - left + wanted:
                break
            chosen.setdefault(case.key(), case)
    cases = list(chosen.values())
    by_scene = collections.defaultdict(list)
    for case in cases:
        by_scene[case.scene.key()].append(case)

    def emit(group):
        for case, line in zip(group, moefs.judge(group[0].scene, [c.text for c in group], forced=True)):
            case.line = line

    parallel(emit, list(by_scene.values()), jobs)
    return cases, len(pool)


def tops(moefs, toolchain, count, jobs):
    """The best plans of every built-in model on every built-in cluster."""
    def best(scene):
        found = []
        for line in moefs.best(scene, count):
            case = Case(scene, line["plan"], "top")
            case.line = line
            found.append(case)
        return found

    return [case for cases in parallel(best, list(inputs.builtins(toolchain)), jobs) for case in cases]
