#!/usr/bin/env python3
"""Whether the simulation of exchanges finds bugs: puts one at a time into weir-proxy and runs its simulation.

mutate.py, in a clean clone of Weir. Prints a line for each bug: found, with the first seed that shows it, or survived. Restores each file.
"""
import subprocess

SOURCES = "crates/weir-proxy/src/"
TEST = ["cargo", "test", "-q", "-p", "weir-proxy", "--lib", "exchange::simulation"]
MUTATIONS = [
('a slot that a failed attempt leaks','exchange/attempt.rs','        failed.slot = Some(self.slot).filter(|_| failed.is_stale());','        if failed.is_stale() { failed.slot = Some(self.slot) } else { std::mem::forget(self.slot) }'),
('a request sent again although a server may have acted on it','exchange/retry.rs','repeatable: plan.may_repeat(exchange),','repeatable: true,'),
('a body sent again from where the first attempt stopped','exchange/attempt.rs','        self.replay_buffer.rewind();\n',''),
('a body that is not whole sent again','exchange/retry.rs','body_replayable: exchange.replay_buffer.is_whole(),','body_replayable: true,'),
('a response cut short that passes for whole','exchange/respond.rs','Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),','Poll::Ready(Err(RelayError::Truncated)) => return Poll::Ready(Ok(())),\n        Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),'),
('a place in the queue that is never left','exchange/queue.rs','        self.shard.queue_length.decrement();\n',''),
('a slot handed over to a client that has left','exchange/queue.rs','                self.plan.admission.give_back(server);\n                self.plan.serve_queue();\n','                let _ = server;\n'),
('no look at the queue after entering it','exchange/queue.rs','    plan.serve_queue();\n    client.deadline.set(began','    client.deadline.set(began'),
('a deadline for responses that is not set','exchange/waits.rs','Activity::ResponseHead => self.response.map(|limit| now + limit),','Activity::ResponseHead => None,'),
('bytes of a body lost between two turns','relay/mod.rs','        self.moved += len as u64;\n    }\n}','        self.moved += len as u64;\n        if self.moved > 4_000 && len > 100 { source.take(source.data().len().min(1)); }\n    }\n}'),
('a second final response after a first one has begun','exchange/respond.rs','    exchange.answered = true;\n',''),
('a retry on the server that has just failed','exchange/retry.rs','NextServer::OtherOnly => history.excluded.insert(failed.server),','NextServer::OtherOnly => {}'),
('a client that has left is not noticed while its request waits','exchange/queue.rs','            if let Some(cause) = stream.poll_gone(cx, client) {\n                return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));\n            }\n',''),
]

for name, file, text, bug in MUTATIONS:
    path = SOURCES + file
    before = open(path).read()
    assert before.count(text) == 1, f"{name}: {path} has the text {before.count(text)} times"
    open(path, "w").write(before.replace(text, bug))
    try:
        build = subprocess.run([*TEST, "--no-run"], capture_output=True, text=True)
        assert build.returncode == 0, f"{name}: {build.stderr}"
        test = subprocess.run(TEST, capture_output=True, text=True, timeout=300)
    finally:
        open(path, "w").write(before)
    lines = (test.stdout + test.stderr).splitlines()
    seeds = [line.split()[0] for line in lines if "SIMULATION_SEED" in line]
    print(f"{name}: {'survived' if test.returncode == 0 else 'found, ' + (seeds or ['without a seed'])[0]}", flush=True)
