import assert from 'node:assert/strict'
import { createContention } from 'signalbox/contention'
import { createLog } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

test('slow waits of a kind make one server log line per interval', async () => {
  const lines: { event: string; level: string; kind: string; count: number; message: string }[] = []
  const destination = {
    write(text: string, taken: () => void) {
      lines.push(
        ...text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
      )
      taken()
    },
  }
  const contention = createContention({ warnMs: 200, warnEveryMs: 300 })
  await using _stage = await serving({ log: createLog({ destination, level: 'warn' }) }, 'memory:', {
    contention,
  })
  const now = performance.now()
  for (const kind of ['pull', 'push'])
    for (const waitMs of [1_000, 2_000, 3_000]) contention.turn(contention.kind(kind), now - waitMs, now, now)
  const slow = () =>
    lines.filter(({ event, kind }) => event === 'contention.slow' && /^(pull|push)$/.test(kind))
  const untilBoth = async () => {
    while (slow().length < 2) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await within(10_000, 'the lines', untilBoth())
  assert.deepEqual(
    slow().map(({ level, kind, count }) => [level, kind, count]),
    [
      ['warn', 'pull', 3],
      ['warn', 'push', 3],
    ],
  )
  assert.match(slow()[0]!.message, /^3 waits of pull above 200 ms in the last \d+ s, longest 3\.0 s/)
})
