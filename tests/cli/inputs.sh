# Models from disk: good ones are searched, broken ones give one line with file and field, exit 2.
. "$(dirname "$0")/libcli.sh"
good='{"model_type":"qwen3_moe","architectures":["Qwen3MoeForCausalLM"],"num_hidden_layers":4,"hidden_size":256,"num_attention_heads":8,
"num_key_value_heads":4,"head_dim":64,"intermediate_size":512,"moe_intermediate_size":128,"num_experts":16,"num_experts_per_tok":4,
"vocab_size":32000,"max_position_embeddings":8192,"tie_word_embeddings":false,"norm_topk_prob":true,"rms_norm_eps":1e-6,"rope_theta":1000000}'
mkdir -p "$work/m"
printf '%s' "$good" >"$work/m/config.json"
run 0 search --model "$work/m/config.json" --cluster 8xh100 --json --top 1
json "o['plans'][-1]['verdict'] == 'buildable'"
run 0 search --model "$work/m" --cluster 8xh100 --top 1

broken() { # NAME TEXT FIELD
	printf '%s' "$2" >"$work/$1.json"
	run 2 search --model "$work/$1.json" --cluster 8xh100
	lines err 1
	says err "$1.json"
	[ -z "$3" ] || says err "$3"
}
broken truncated "${good:0:100}" ""
broken negative "${good/\"hidden_size\":256/\"hidden_size\":-256}" hidden_size
broken wrongtype "${good/\"num_experts\":16/\"num_experts\":\"many\"}" num_experts
broken missing "${good/\"num_hidden_layers\":4,/}" num_hidden_layers
broken unknown "${good/qwen3_moe/quantum_moe}" model_type
broken fraction "${good/\"head_dim\":64/\"head_dim\":64.5}" head_dim
broken huge "${good/\"num_hidden_layers\":4/\"num_hidden_layers\":4000000000}" num_hidden_layers
broken array "[1, 2, 3]" ""
head -c 4096 /dev/urandom >"$work/binary.json"
run 2 search --model "$work/binary.json" --cluster 8xh100
lines err 1
truncate -s 1G "$work/giant.json"
run 2 search --model "$work/giant.json" --cluster 8xh100
lines err 1
says err "giant.json"
run 2 search --model "$work/nothere.json" --cluster 8xh100
run 2 search --model "$work" --cluster 8xh100
: >"$work/empty.json"
run 2 search --model "$work/empty.json" --cluster 8xh100
lines err 1
mkfifo "$work/fifo.json"
run 2 search --model "$work/fifo.json" --cluster 8xh100

# YAML inputs: unknown keys and bad values name the line.
printf 'domain:\n  gpu: H800\nvalues:\n  no_such_constant: 1\n' >"$work/o.yaml"
run 2 search --overlay "$work/o.yaml" --cluster 8xh800
says err "o.yaml:4"
run 0 search --overlay h800 --cluster 8xh800 --top 1
run 2 search --cluster 8xh900
lines err 1
run 3 cluster auto

# A file of the user's comes before the built-in one.
mkdir -p "$XDG_CONFIG_HOME/moefs/models"
printf '%s' "$good" >"$XDG_CONFIG_HOME/moefs/models/olmoe.yaml"
run 0 model olmoe --json
json "o['hidden'] == 256"
run 0 model
says out "small-moe-bench"
run 0 cluster
says out "gb200-nvl72"
for m in $("$MOEFS" model); do
	run 0 model "$m"
done
for c in $("$MOEFS" cluster); do
	run 0 cluster "$c" --json
done
finish
