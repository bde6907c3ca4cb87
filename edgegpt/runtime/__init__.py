"""One .onnx file to tokens to text: numpy, onnxruntime and tokenizers, nothing else."""
