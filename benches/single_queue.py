"""The model of crates/flash-sim/examples/single_queue.rs in SimPy: M/M/1 at a load of 0.9, arrivals and departures counted.

    pip install simpy && python3 benches/single_queue.py
"""

import random
import time

import simpy

CUSTOMERS = 200_000
waited_us = 0.0
served = 0


def customer(env, server, draw):
    global waited_us, served
    came = env.now
    with server.request() as turn:
        yield turn
        waited_us += env.now - came
        yield env.timeout(draw.expovariate(1 / 9.0))
    served += 1


def arrivals(env, server, draw):
    while True:
        env.process(customer(env, server, draw))
        yield env.timeout(draw.expovariate(1 / 10.0))


draw = random.Random(1)
env = simpy.Environment()
server = simpy.Resource(env, capacity=1)
env.process(arrivals(env, server, draw))
begun = time.perf_counter()
while served < CUSTOMERS:
    env.step()
seconds = time.perf_counter() - begun
print(f"mean wait {waited_us / served:.1f} us, theory 81.0")
print(f"{2 * served / seconds / 1e6:.3f} million events a second")
