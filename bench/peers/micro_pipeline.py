#!/usr/bin/env python3
"""PyTorch's micro_pipeline_tp beside Weft's on recorded graphs: what each takes, and Weft's reason where it takes less.

usage: micro_pipeline.py WEFT DIR      (DIR holds CASE/before.fx.json, manifest*.json; under the python of build/peers/torch, no GPU)
A row a case: what torch makes of it, what Weft does, the same or not, and why. (*): more than the manifest says is to be
taken. Last line: how many are the same, more, fewer.
Exit status 1: where Weft takes other pairs than the manifest says, or takes less than torch and says nothing."""
import collections, contextlib, glob, json, logging, os, re, subprocess, sys, warnings

weft, root = os.path.abspath(sys.argv[1]), sys.argv[2]


def fused_by_weft(case):
    """Names of fused ops, and the reasons of what is left."""
    out = subprocess.run([weft, 'opt', case + '/before.fx.json', '-v', '--form', 'fx', '--passes', 'micro_pipeline_tp: {form: fused, guard: off}'],
                         capture_output=True, text=True, timeout=120)
    if out.returncode:
        raise RuntimeError(out.stderr.strip()[-200:])
    names = [n['target'].split('.')[1] for n in json.loads(out.stdout)['nodes'] if '.fused_' in n['target']]
    reasons = re.findall(r'left alone \((?!nothing)(.*?)\): \S+ #\d+: (.*)', out.stderr)
    return sorted(names), '; '.join(dict.fromkeys(f'{w}' for _, w in reasons))


def graph_of(spec, torch):
    """The recorded graph as torch traces it, with shapes on each node."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    import operator
    graph, values = torch.fx.Graph(), {}
    mode = FakeTensorMode()
    group = torch.distributed.distributed_c10d._get_default_group().group_name
    with mode:
        for i in spec['inputs']:
            values[i['name']] = graph.placeholder(i['name'])
            values[i['name']].meta['val'] = torch.empty(i['shape'], dtype=getattr(torch, i['dtype']))
        take = lambda a: values[a['ref']] if isinstance(a, dict) and 'ref' in a else [take(x) for x in a] if isinstance(a, list) else a
        for n in spec['nodes']:
            target, args = n['target'], take(n['args'])
            if target.startswith('_c10d_functional.') and 'wait' not in target:
                args[-1] = group
            op = operator.getitem if target == 'getitem' else torch.ops
            for part in target.split('.') if target != 'getitem' else ():
                op = getattr(op, part)
            node = values[n['name']] = graph.call_function(op, tuple(args), n['kwargs'])
            fake = torch.fx.map_arg((node.args, node.kwargs), lambda x: x.meta['val'])
            node.meta['val'] = op(*fake[0], **fake[1])
    graph.output(tuple(values[o['ref']] for o in spec['outputs']))
    return graph


def fused_by_torch(spec, torch, symm_mem, micro):
    graph = graph_of(spec, torch)
    logging.disable(logging.WARNING)
    try:
        micro.micro_pipeline_tp_pass(graph)
        graph.lint()
    except Exception as e:
        return [f'fails: {type(e).__name__}']
    finally:
        logging.disable(logging.NOTSET)
    return sorted(n.target.__name__.split('.')[0] for n in graph.nodes if n.op == 'call_function' and 'fused_' in str(n.target))


def cases_of_size(world):
    """In a process of its own: torch has one default group."""
    import torch, torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    import torch.distributed._symmetric_memory as symm_mem
    import torch._inductor.fx_passes.micro_pipeline_tp as micro
    warnings.simplefilter('ignore')
    dist.init_process_group('fake', rank=0, world_size=world, store=FakeStore())
    group = dist.distributed_c10d._get_default_group().group_name
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        symm_mem.enable_symm_mem_for_group(group)
    with symm_mem._test_mode():
        for case in sys.stdin.read().split():
            print(json.dumps([case, torch.__version__, fused_by_torch(json.load(open(case + '/before.fx.json')), torch, symm_mem, micro)]))


def main():
    required = {c['case']: sorted(c['required']['fuse']) for m in glob.glob(f'{root}/manifest*.json') for c in json.load(open(m))}
    sizes = collections.defaultdict(list)
    for path in sorted(glob.glob(f'{root}/*/before.fx.json')):
        g = json.load(open(path))
        sizes[g.get('world_size') or max(len(x['ranks']) for x in g['groups'].values())].append(os.path.dirname(path))
    found = {}
    for world, cases in sizes.items():
        out = subprocess.run([sys.executable, __file__, weft, root, str(world)], input='\n'.join(cases), capture_output=True, text=True)
        if out.returncode:
            sys.exit(out.stderr[-2000:])
        for line in out.stdout.splitlines():
            if line.startswith('["'):
                case, version, fused = json.loads(line)
                found[case] = fused
    count, bad = collections.Counter(), 0
    short = lambda names: ', '.join(n.removeprefix('fused_') for n in names) or 'nothing'
    print(f'PyTorch {version}\n\n| graph | PyTorch | Weft | | why |\n| --- | --- | --- | --- | --- |')
    for case, theirs in sorted(found.items()):
        name = os.path.basename(case)
        ours, reasons = fused_by_weft(case)
        wanted = required.get(name, ours)
        verdict = 'same' if ours == theirs else 'fewer' if len(ours) < len(theirs) else 'more' if len(ours) > len(theirs) else 'others'
        wrong = theirs != wanted and len(theirs) >= len(wanted)
        count[verdict] += 1
        bad += ours != wanted or (verdict == 'fewer' and not reasons)
        print(f"| {name} | {short(theirs)}{' (*)' if wrong else ''} | {short(ours)} | {verdict} | {reasons if len(ours) < max(len(theirs), 1) else ''} |")
    print(f"\n{len(found)} graphs: {', '.join(f'{v} {k}' for k, v in sorted(count.items()))}")
    sys.exit(bad > 0)


cases_of_size(int(sys.argv[3])) if len(sys.argv) > 3 else main()
