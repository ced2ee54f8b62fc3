"""Cases of data_parallel.py: updates by other ops than optimizers, losses, metrics."""
import numpy as np
from data_parallel_check import differs, refused, same
from data_parallel_program import BACKWARD, LOSS, regression
from data_parallel_rows import sentences


# --- updates that are no optimizer's ---------------------------------------------------------------------------------

def by_hand(clip=False):
    """Momentum and a moving average of the parameter, out of plain ops."""
    p = regression()
    p.mean('s', [-1, 3])
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4, named=False)
    g, d = 'w@GRAD', [4, 3]
    for name in ('v', 'average'):
        p.param(name, np.zeros(d, 'f4'), trained=False)
    if clip:
        p.op('square', {'X': g}, {'Out': ('g2', d)})
        p.op('reduce_sum', {'X': 'g2'}, {'Out': ('norm2', [])}, dim=[], reduce_all=True)
        p.op('sqrt', {'X': 'norm2'}, {'Out': ('norm', [])})
        p.op('elementwise_div', {'X': g, 'Y': 'norm'}, {'Out': ('unit', d)}, axis=-1)
        g = 'unit'
    p.op('scale', {'X': 'v'}, {'Out': ('kept', d)}, scale=0.9)
    p.op('elementwise_add', {'X': 'kept', 'Y': g}, {'Out': ('moved', d)}, axis=-1)
    p.op('assign', {'X': 'moved'}, {'Out': 'v'})
    p.op('scale', {'X': 'moved'}, {'Out': ('step', d)}, scale=0.1)
    p.op('elementwise_sub', {'X': 'w', 'Y': 'step'}, {'Out': ('new', d)}, axis=-1)
    p.op('assign', {'X': 'new'}, {'Out': 'w'})
    p.op('scale', {'X': 'average'}, {'Out': ('old', d)}, scale=0.9)
    p.op('scale', {'X': 'new'}, {'Out': ('fresh', d)}, scale=0.1)
    p.op('elementwise_add', {'X': 'old', 'Y': 'fresh'}, {'Out': ('mixed', d)}, axis=-1)
    p.op('assign', {'X': 'mixed'}, {'Out': 'average'})
    return p


def case_update_by_hand(folder):
    same(by_hand(), folder, says='from what optimizers and other ops read')


def case_update_by_hand_on_three(folder):
    p = by_hand(clip=True)
    for n in p.feeds:
        p.feeds[n] = [np.concatenate([v, v[:1] + 1]) for v in p.feeds[n]]
    same(p, folder, ranks=3)


def case_statistics_by_hand(folder):
    """The mean of rows, kept by plain ops: its addends are joined."""
    p = by_hand()
    p.param('center', np.zeros(4, 'f4'), trained=False)
    p.op('reduce_mean', {'X': 'x'}, {'Out': ('m', [4])}, dim=[0])
    p.op('elementwise_sub', {'X': 'm', 'Y': 'center'}, {'Out': ('away', [4])}, axis=-1)
    p.op('scale', {'X': 'away'}, {'Out': ('pull', [4])}, scale=0.5)
    p.op('elementwise_add', {'X': 'center', 'Y': 'pull'}, {'Out': ('moved_center', [4])}, axis=-1)
    p.op('assign', {'X': 'moved_center'}, {'Out': 'center'})
    same(p, folder)


def case_state_of_rows_is_refused(folder):
    p = by_hand()
    p.param('most', np.zeros(4, 'f4'), trained=False)
    p.op('reduce_max', {'X': 'x'}, {'Out': ('top', [4])}, dim=[0])
    p.op('assign', {'X': 'top'}, {'Out': 'most'})
    refused(p, folder, 'updates most, which must be equal on all ranks')


def case_optimizer_without_op_role_var(folder):
    p = regression()
    p.mean('s', [-1, 3])
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4, named=False)
    p.sgd()
    same(p, folder, says='1 gradient from what optimizers and other ops read')


# --- losses ----------------------------------------------------------------------------------------------------------

def plain_sum():
    p = regression()
    p.op('reduce_sum', {'X': 's'}, {'Out': ('loss', [])}, LOSS, dim=[], reduce_all=True)
    p.seed('loss')
    p.op('reduce_sum_grad', {'X': 's', 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': ('s@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    p.squares_grad(-1, 4)
    p.sgd()
    p.params['lr'] = np.float32([0.01])
    return p


def case_sum_is_told(folder):
    differs(plain_sum(), folder, 'reduce_sum #3: the loss loss is a sum over the batch: reduce: sum gives')


def weighted(mean_too=False):
    """A mean over weights: sum(s * weight) / sum(weight), with weights that ranks have differently many of."""
    p, r = regression(), np.random.default_rng(5)
    p.feed('weight', [(r.random((8, 1)) < [[0.9]] * 4 + [[0.3]] * 4).astype('f4') + 0.01 for _ in range(4)], [-1, 1])
    p.op('elementwise_mul', {'X': 's', 'Y': 'weight'}, {'Out': ('sw', [-1, 3])}, axis=-1)
    p.op('reduce_sum', {'X': 'sw'}, {'Out': ('total', [])}, dim=[], reduce_all=True)
    p.op('reduce_sum', {'X': 'weight'}, {'Out': ('count', [])}, dim=[], reduce_all=True)
    p.op('elementwise_div', {'X': 'total', 'Y': 'count'}, {'Out': ('loss', [])}, LOSS, axis=-1)
    if mean_too:
        p.op('reduce_mean', {'X': 's'}, {'Out': ('plain', [])}, dim=[], reduce_all=True)
        p.op('elementwise_add', {'X': 'loss', 'Y': 'plain'}, {'Out': ('both', [])}, axis=-1)
        p.seed('both')
        p.op('elementwise_add_grad', {'X': 'loss', 'Y': 'plain', 'Out@GRAD': 'both@GRAD'}, {'X@GRAD': ('loss@GRAD', []), 'Y@GRAD': ('plain@GRAD', [])},
             BACKWARD, axis=-1)
        p.op('reduce_mean_grad', {'X': 's', 'Out@GRAD': 'plain@GRAD'}, {'X@GRAD': ('s1@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    else:
        p.seed('loss')
    p.op('elementwise_div_grad', {'X': 'total', 'Y': 'count', 'Out': 'loss', 'Out@GRAD': 'loss@GRAD'}, {'X@GRAD': ('total@GRAD', [])}, BACKWARD, axis=-1)
    p.op('reduce_sum_grad', {'X': 'sw', 'Out@GRAD': 'total@GRAD'}, {'X@GRAD': ('sw@GRAD', [-1, 3])}, BACKWARD, dim=[], reduce_all=True)
    s = 's2@GRAD' if mean_too else 's@GRAD'
    p.op('elementwise_mul_grad', {'X': 's', 'Y': 'weight', 'Out@GRAD': 'sw@GRAD'}, {'X@GRAD': (s, [-1, 3])}, BACKWARD, axis=-1)
    if mean_too:
        p.op('sum', {'X': ['s1@GRAD', s]}, {'Out': ('s@GRAD', [-1, 3])}, BACKWARD)
    p.squares_grad(-1, 4)
    p.sgd()
    return p


def case_means_over_weights(folder):
    differs(weighted(), folder, "elementwise_div #6: the loss loss is no mean of the ranks' losses")
    same(weighted(), folder, options='reduce: tokens', says='total of reduce_sum #4 is of all ranks now')
    same(weighted(), folder, ranks=4, options='reduce: tokens')


def case_means_of_both_kinds(folder):
    differs(weighted(True), folder, 'is no mean', loss='both')
    same(weighted(True), folder, options='reduce: tokens', loss='both')


def case_tokens_on_plain_losses(folder):
    same(plain_sum(), folder, options='reduce: tokens')
    same(by_hand(clip=True), folder, options='reduce: tokens')
    same(sentences(), folder, options='reduce: tokens')


def case_tokens_where_rows_are_mixed(folder):
    p = regression()
    p.op('reduce_max', {'X': 's'}, {'Out': ('top', [3])}, dim=[0])
    p.mean('top', [3])
    refused(p, folder, 'reduce: tokens: reduce_max #3 is not followed exactly', options='reduce: tokens')


# --- metrics ---------------------------------------------------------------------------------------------------------

def metric(slide_steps, version=2006002):
    """The area under the curve of a regression's first output, counted over all steps or a window of them."""
    p = regression()
    p.version = version
    p.feed('click', [np.random.default_rng(s).integers(0, 2, (8, 1)) for s in range(4)], [-1, 1])
    p.mean('s', [-1, 3])
    p.op('sigmoid', {'X': 'h'}, {'Out': ('p', [-1, 3])})
    counts = [16 * (slide_steps + 1) + 1] if slide_steps else [1, 16]
    for name in ('positive', 'negative'):
        p.param(name, np.zeros(counts, 'i8'), trained=False)
        if not slide_steps:
            p.params[name] = np.zeros(17, 'i8')  # as startup programs of Paddle make them: one more
    p.op('auc', {'Predict': 'p', 'Label': 'click', 'StatPos': 'positive', 'StatNeg': 'negative'},
         {'AUC': ('area', [], 'float64'), 'StatPosOut': 'positive', 'StatNegOut': 'negative'},
         num_thresholds=15, slide_steps=slide_steps)
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4)
    p.sgd()
    return p


def case_metrics_count_all_rows(folder):
    for slide_steps in (0, 2):
        same(metric(slide_steps), folder, says='counts the rows of all ranks')
        same(metric(slide_steps, 3003001), folder, ranks=4, loss='area', says='counts the rows of all ranks')
    same(metric(0), folder, options='reduce: tokens', says='counts the rows of all ranks')


# --- what counts rows, whatever the loss is --------------------------------------------------------------------------

def normed(slot_dim=-1):
    """A regression of columns that are normalised by sums over all data so far, which their gradients add to."""
    r, p = np.random.default_rng(5), regression()
    p.ops.clear()
    sums = {'BatchSize': np.full(4, 6), 'BatchSum': r.normal(size=4), 'BatchSquareSum': np.full(4, 9)}
    for name, value in sums.items():
        p.param(name, np.float32(value))
    p.op('data_norm', {'X': 'x', **{n: n for n in sums}}, {'Y': ('normed', [-1, 4]), 'Means': ('means', [4]), 'Scales': ('scales', [4])},
         slot_dim=slot_dim)
    p.squares(-1, 4, x='normed')
    p.mean('s', [-1, 3])
    p.mean_grad('s', [-1, 3])
    p.squares_grad(-1, 4, x='normed')
    p.op('matmul_v2_grad', {'X': 'normed', 'Y': 'w', 'Out@GRAD': 'h@GRAD'}, {'X@GRAD': ('normed@GRAD', [-1, 4])}, BACKWARD)
    p.op('data_norm_grad', {'X': 'x', 'Means': 'means', 'Scales': 'scales', 'Y@GRAD': 'normed@GRAD'},
         {**{n + '@GRAD': (n + '@GRAD', [4]) for n in sums}, **{n: n for n in sums}}, BACKWARD, slot_dim=slot_dim,
         op_role_var='[' + ', '.join(f'{n}, {n}@GRAD' for n in sums) + ']')
    for name in ('w', *sums):
        p.sgd(name)
    return p


def case_sums_over_all_data_are_added_up(folder):
    """Their gradients are summed where others are averaged; on three ranks, and where they are added up, too."""
    same(normed(), folder)
    p = normed()
    for n in p.feeds:
        p.feeds[n] = [np.concatenate([v, v[:1] + 1]) for v in p.feeds[n]]
    same(p, folder, ranks=3)
    same(p, folder, ranks=3, options='reduce: tokens')


def case_means_over_shown_slots_are_refused(folder):
    refused(normed(slot_dim=2), folder, 'no sum over ranks gives the whole')
