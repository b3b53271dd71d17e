# Commands come back: what emit writes, reported launches, versions, and what a plan does not say.
. "$(dirname "$0")/libcli.sh"

# A written command gives its plan, its hash and its verdict again.
for format in json nul shell sbatch; do
	run 0 emit --model qwen3-30b-a3b --cluster 2x8xh100 --plan tp2/pp2/v3/ep4/interleaved+ov/disp:alltoall/rc:moe_act --format $format --out "$work/c"
	run 0 check --argv "$work/c" --cluster 2x8xh100 --json
	json 'o["plan"] == "tp2/pp2/v3/ep4/interleaved+ov/rc:moe_act" and o["verdict"] == "buildable"'
	json 'o["unread"] == [] and o["differs"] == []'
done
run 0 emit --phase serve --model glm-4.5-air --cluster 8xh800 --plan tp4/pp2/ep4/lay:20-26 --out "$work/s.sh"
run 0 check --argv "$work/s.sh" --model glm-4.5-air --cluster 8xh800 --json
json 'o["plan"] == "tp4/pp2/ep4/lay:20-26" and o["unread"] == [] and o["differs"] == []'

# The version asked for is the one that judges, and all of them make a table.
run 0 emit --model deepseek-v2-lite --cluster 8xh800 --toolchain megatron-0.17.1 --plan tp1/pp1/ep8/1f1b --out "$work/old.sh"
run 0 check --argv "$work/old.sh" --cluster 8xh800 --toolchain megatron-0.17.1 --json
json 'o["toolchain"] == "megatron-0.17.1" and o["differs"] == []'
run 0 check --argv "$work/old.sh" --cluster 8xh800 --toolchain all
lines out 4
says out "megatron-0.19.0    buildable"
run 1 check --plan tp1/pp2/ep8/interleaved+ov --model deepseek-v2-lite --cluster 16xh800 --toolchain all --json
json '[v["toolchain"] for v in o] == ["megatron-0.17.1", "megatron-0.18.0", "megatron-0.18.2", "megatron-0.19.0"]'

# What the command says and a plan does not, and the other way round.
run 0 check --model olmoe --cluster 8xh100 -- srun torchrun --nproc-per-node 8 pretrain_gpt.py \
	--expert-model-parallel-size 4 --tensor-model-parallel-size 2 --micro-batch-size 1 --use-distributed-optimizer --optimizer sgd
says out "differs: --optimizer sgd: the plan says adam"
says out "differs: --sequence-parallel: the plan says it, the command does not"
run 2 check --cluster 8xh100 -- torchrun --nproc-per-node 8 pretrain_gpt.py --expert-model-parallel-size 8
says err "name one with --model"
run 2 check -- vllm serve m --tensor-parallel-size 8
says err "a vLLM command"

# A report about another engine whose rule is ours too: experts 768 wide cut by 8 are no whole blocks.
run 1 check --phase serve --cluster 8xh100 --model "$SOURCE_DIR/tests/data/models/qwen3-30b-a3b-fp8.yaml" --plan tp8/pp1/ep1 --json
json 'o["rule"] == "sglang.W04" and " 96 " in o["reason"]'

# Reported launches, and the document that tells of them.
if "$SOURCE_DIR/tools/failures" --check "$MOEFS" >"$work/out" 2>"$work/err"; then ok; else bad "tools/failures --check"; fi

finish
