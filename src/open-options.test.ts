import assert from 'node:assert/strict'
import { test } from 'vitest'
import { open } from './index.ts'

const remote = 'http://127.0.0.1:9'

test('an unknown or misplaced option of open is refused, and the message gives its place', async () => {
  const wrong: readonly (readonly [string, unknown, RegExp])[] = [
    [
      'memory:',
      { monitor: { allowPrivate: ['127.0.0.0/8'] } },
      /^open\.monitor has no option "allowPrivate"\. It belongs at the top level: open\(url, \{ allowPrivate \}\)\.$/,
    ],
    [
      'memory:',
      { monitor: { keepsMs: 1 } },
      /^open\.monitor has no option "keepsMs"\. Options: lockTtlMs, .*ignore\.$/,
    ],
    ['memory:', { monitor: 5 }, /^open\.monitor must be an object, not 5\.$/],
    ['memory:', { monitor: ['x'] }, /^open\.monitor must be an object, not an array\.$/],
    [
      'memory:',
      { whenDown: 'closed' },
      /^open has no option "whenDown"\. It belongs to once: open\(url, \{ once: /,
    ],
    ['memory:', { maxWaiters: 5 }, /^open has no option "maxWaiters"\. It belongs to locks: /],
    ['memory:', { keepMs: 5 }, /^open has no option "keepMs"\. It belongs to locks or monitor: /],
    [
      'memory:',
      { sealer: {} },
      /^open has no option "sealer"\. It belongs to jobs: open\(url, \{ jobs: \{ sealer \} \}\)\.$/,
    ],
    ['memory:', { token: 't' }, /^open has no option "token"\. A box on a server has it: /],
    ['memory:', { nope: 1 }, /^open has no option "nope"\. Options: namespace, migrate, /],
    ['memory:', { locks: { nope: 1 } }, /^locks has no option "nope"\. Options: /],
    ['memory:', { once: { nope: 1 } }, /^once has no option "nope"\. Options: /],
    ['memory:', { dispatch: { nope: 1 } }, /^dispatch has no option "nope"\. Options: /],
    ['memory:', { dispatch: { policy: { nope: 1 } } }, /has no option "nope"\. Options: /],
    [
      'memory:',
      { jobs: { nope: 1 } },
      /^open\.jobs has no option "nope"\. Options: sealer, release, membership\.$/,
    ],
    ['memory:', { contention: {} }, /^open\.contention\.start must be a function, not undefined\.$/],
    [remote, { migrate: true }, /^open has no option "migrate"\. This box is on a server: set it there, /],
    [remote, { monitor: {} }, /^open has no option "monitor"\. This box is on a server: /],
    [remote, { allowPrivate: [] }, /^open has no option "allowPrivate"\. This box is on a server: /],
    [
      remote,
      { nope: 1 },
      /^open has no option "nope"\. Options: token, namespace, timeoutMs, retries, fetch, jobs, telemetry\.$/,
    ],
    [remote, 5, /^open must be an object, not 5\.$/],
  ]
  for (const [url, options, message] of wrong)
    await assert.rejects(open(url as 'memory:', options as never), { code: 'invalid_argument', message })
})

test('allowPrivate at the top level is for the monitor', async () => {
  await using box = await open('memory:', { allowPrivate: ['127.0.0.0/8'], monitor: { keepMs: '1d' } })
  assert.deepEqual(box.settings.monitor, { keepMs: '1d', allowPrivate: ['127.0.0.0/8'] })
})
