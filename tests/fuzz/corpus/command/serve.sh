#SBATCH --nodes=4
ARGS=( --tp-size 4 --pp-size 2 )
export SGLANG_PP_LAYER_PARTITION=30,31
srun bash -c "python -m sglang.launch_server ${ARGS[@]} > log 2>&1"
