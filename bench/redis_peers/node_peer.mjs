// Runs one lock library for Node on ioredis: loops that acquire and release, each on its own key.
//
//   node node_peer.mjs LIBRARY PORT CONCURRENCY WARM_UP_SECONDS SECONDS
//
// Prints one line of JSON: {library, concurrency, operations_per_second}. Acquisitions and releases
// count separately; a lock that is not granted or not released ends the program with code 1.
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import NextRedlock from "redlock-next";

const ttlMs = 30_000;

// For each library, a function that acquires and releases a key once.
const libraries = {
  // Like SyncGuard: acquires by a script, with a new random id for each lock; releases by a script
  // that verifies the id, and the client checks its answer. One server and no retries, so that it
  // makes no more than one call for each operation.
  redlock(client) {
    const locks = new Redlock([client], { retryCount: 0 });
    return async (key) => {
      const lock = await locks.lock(key, ttlMs);
      await lock.unlock();
    };
  },
  // The same with its next version, which is still in beta.
  "redlock-next"(client) {
    const locks = new NextRedlock([client], { retryCount: 0 });
    return async (key) => {
      const lock = await locks.acquire([key], ttlMs);
      await lock.release();
    };
  },
  // Does less: acquires by SET NX PX without a script, and its release does not report whether the
  // id was still stored. Its refresh timer is off, as the other libraries have none here.
  "redis-semaphore"(client) {
    return async (key) => {
      const mutex = new Mutex(client, key, {
        lockTimeout: ttlMs,
        acquireAttemptsLimit: 1,
        refreshInterval: 0,
      });
      await mutex.acquire();
      await mutex.release();
    };
  },
};

const [library, ...numbers] = process.argv.slice(2);
const [port, concurrency, warmUpSeconds, seconds] = numbers.map(Number);
if (!(library in libraries) || !(port > 0 && concurrency > 0 && warmUpSeconds >= 0 && seconds > 0)) {
  console.error(
    `usage: node node_peer.mjs ${Object.keys(libraries).join("|")} PORT CONCURRENCY WARM_UP_SECONDS SECONDS`,
  );
  process.exit(64);
}

// Without enableAutoPipelining: with it, at their best concurrency, redlock was about as fast,
// redlock-next and redis-semaphore were slower.
const client = new Redis({ host: "127.0.0.1", port });
const pair = libraries[library](client);

let pairs = 0;
let stopping = false;
async function loop(key) {
  while (!stopping) {
    await pair(key);
    ++pairs;
  }
}
const after = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));

const loops = Promise.all(Array.from({ length: concurrency }, (_, i) => loop(`bench:node:${i}`)));
// A failing loop must end the program at once, not when the measurement ends.
loops.catch((error) => {
  console.error(`${library} with ${concurrency} loops: ${error.stack}`);
  process.exit(1);
});
await after(warmUpSeconds);
const pairsBefore = pairs;
const begin = performance.now();
await after(seconds);
const measured = pairs - pairsBefore;
const elapsed = (performance.now() - begin) / 1000;
stopping = true;
await loops;
await client.quit();
console.log(
  JSON.stringify({ library, concurrency, operations_per_second: Math.round((2 * measured) / elapsed) }),
);
