"""A script that uses the package widely, for mypy: it is not run. test_types.py checks it."""
import numpy as np
import weft
import weft.paddle
import weft.torch


@weft.pass_(options={"type": "scale"})
def count_types(run: weft.PassContext, program: weft.Program) -> None:
    run.count("ops counted", sum(op.type == run.options["type"] for op in program.block))
    for op in program.ops:
        names: list[str] = [var.name for args in op.inputs.values() for var in args]
        flag: bool = op.attr("use_calc_stream", False)
        number: int = op.attr("ring_id", 0)
        run.did(f"{names} {flag} {number}")


def main() -> None:
    program = weft.Program.load("serial.pdmodel")
    report = program.run_passes([count_types, ("prune_grad_scale", {}), "insert_comm_wait"], set={"a.b": 4}, prove="require")
    seconds: float = sum(one.seconds for one in report)
    findings: weft.Findings = weft.verify(program, ranks=4)
    print(report, seconds, findings.safe, [f.remedy for f in findings], findings[0].ops[0].index)
    out = weft.run(program, ranks=4, params="params.npz", feeds=[{"x": np.zeros(3)}], fetches=["loss"], trace=True,
                   progress=lambda step, steps, trainer: print(step, steps, trainer.fetch("loss")))
    if out.timeline is not None:
        out.timeline.save("steps.html")
    print(out.fetches["loss"].mean(axis=1))
    plan = weft.plan(program, fetches=["loss"])
    print(plan.summary["nevents"] + 1, [v.shape[0] for v in plan.values], plan._repr_html_())
    simulated = weft.simulate([program], ranks=2, cluster=weft.Cluster(1e12, links=[(2, 1e9, 1e-6)]), steps=2)
    print(simulated.step() + 1.0, [race.count for race in simulated.races])
    trainer = weft.Trainer(program, ranks=2)
    for step in trainer:
        print(step + 1, trainer.state()["w"].shape)
    try:
        weft.check_replicas(program, 2)
    except weft.InvalidProgram as error:
        print(error.place + error.message, [d.line for d in error.diagnostics], error.report)
    print(weft.paddle.optimize(object(), ranks=2).count("data_parallel", "gradients reduced") + 1)
    weft.torch.install(strict=True)
    print(weft.torch.backend.reports, weft.torch.explain(object()).collectives[0].outcome.upper())
    step_of = weft.torch.shard(object(), lambda model, x: model(x).sum(), (1,), {"w": "S(0)", 0: "R"})
    print(step_of(1), step_of.whole_parameters()["w"])


main()
