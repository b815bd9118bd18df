/** `box.locks` and `signalbox/locks` as their contract declares them; `tsc` is the test. */
import type { Box, RemoteBox } from 'signalbox'
import type { AcquireAnswer, Held, Locks, SqlFence, sqlFence } from 'signalbox/locks'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Expect<T extends true> = T

export type Rooms = [
  // The same verbs, in process and on a server elsewhere.
  Expect<Equal<Box['locks'], Locks>>,
  Expect<Equal<RemoteBox['locks'], Locks>>,
  Expect<
    Equal<
      keyof Locks,
      | 'acquire'
      | 'release'
      | 'renew'
      | 'leave'
      | 'inspect'
      | 'list'
      | 'evict'
      | 'watch'
      | 'singleFlight'
      | 'hold'
      | typeof Symbol.asyncDispose
    >
  >,
  Expect<Equal<AcquireAnswer['status'], 'granted' | 'queued' | 'refused' | 'completed' | 'failed'>>,
  Expect<Equal<Held['token'], number>>,
  Expect<Equal<ReturnType<typeof sqlFence>, SqlFence>>,
]

export async function uses(locks: Locks): Promise<void> {
  const value: string = await locks.singleFlight('pull', 'app:1.2', {
    node: 'a',
    check: () => undefined,
    run: async (held) => String(held.token),
  })
  await using held = await locks.hold('deploy', value, { node: 'a', ttlMs: '1m' })
  const answer = await locks.acquire({ operation: 'pull', resource: 'app:1.2', node: 'a' })
  // @ts-expect-error only a grant has a token
  held.progress(answer.token)
  if (answer.status === 'granted') held.progress(answer.token)
  // @ts-expect-error who asks must say who it is
  locks.acquire({ operation: 'pull', resource: 'app:1.2' })
  // @ts-expect-error a turn ends as a success or a failure
  locks.release({ operation: 'pull', resource: 'app:1.2', node: 'a', token: 1, outcome: 'maybe' })
}
