import torch


def facts(x, N, MODE):
    return {"y": 1.5 * x, "told": torch.tensor([N, MODE, 0, 7])}
