"""The GPT in PyTorch and its checkpoint folder."""
