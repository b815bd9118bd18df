import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { test } from 'vitest'
import type { Trial } from '../../bench/case.ts'
import { type Measurement, measureInChild, measureTrial, turns } from '../../bench/measure.ts'
import { findModule, moduleNames } from '../../bench/modules.ts'
import { createProgress } from '../../bench/progress.ts'

const contestants = { a: () => ({ rate: 1 }), b: () => ({ rate: 1 }), c: () => ({ rate: 1 }) }
const trial: Trial = { name: 'trial', contestants, cases: [] }

test('contestants take turns, and each round starts with the next one', () => {
  assert.deepEqual(turns(['a', 'b', 'c'], 1), ['a', 'b', 'c'])
  assert.deepEqual(turns(['a', 'b', 'c'], 2), ['b', 'c', 'a'])
  assert.deepEqual(turns(['a', 'b', 'c'], 4), ['a', 'b', 'c'])
})

test('a trial measures every contestant once per round and keeps every round', async () => {
  const order: string[] = []
  const outcomes = await measureTrial('module', trial, {
    rounds: 2,
    quick: true,
    measure: async ({ contestant, conditions }) => {
      assert.deepEqual(conditions, { quick: true, full: false, settings: {} })
      return { rate: order.push(contestant) }
    },
    progress: () => {},
  })
  assert.equal(order.join(''), 'abcbca')
  assert.deepEqual(outcomes.get('a'), { rounds: [{ rate: 1 }, { rate: 6 }] })
})

test('a contestant that cannot run keeps its reason and does not delay the others', async () => {
  let tries = 0
  const outcomes = await measureTrial('module', trial, {
    rounds: 3,
    quick: false,
    measure: async ({ contestant }) => {
      if (contestant !== 'b') return { rate: 1 }
      tries++
      throw new Error('no server\nat somewhere')
    },
    progress: () => {},
  })
  assert.equal(tries, 1)
  assert.deepEqual(outcomes.get('b'), { reason: 'no server' })
  assert.deepEqual(outcomes.get('c'), { rounds: [{ rate: 1 }, { rate: 1 }, { rate: 1 }] })
})

test('the ground is opened once, its settings reach every contestant, and it is closed', async () => {
  let life = ''
  const close = async (): Promise<void> => {
    life += 'closed'
  }
  const seen = new Set<string>()
  await measureTrial(
    'module',
    {
      ...trial,
      open: async () => {
        life += 'open '
        return { settings: { url: 'pg://x' }, [Symbol.asyncDispose]: close }
      },
    },
    {
      rounds: 2,
      quick: false,
      measure: async ({ conditions }) => {
        seen.add(conditions.settings.url!)
        return {}
      },
      progress: () => {},
    },
  )
  assert.equal(life, 'open closed')
  assert.deepEqual([...seen], ['pg://x'])
})

test('a ground that cannot be opened is given as the reason of every contestant', async () => {
  const open = async (): Promise<never> => {
    throw new Error('no MariaDB here')
  }
  const outcomes = await measureTrial(
    'module',
    { ...trial, open },
    { rounds: 5, quick: false, measure: async () => assert.fail('measured'), progress: () => {} },
  )
  assert.deepEqual([...outcomes.values()], Array(3).fill({ reason: 'no MariaDB here' }))
})

test('a measurement is taken in a separate process', async () => {
  const conditions = { quick: true, settings: {} }
  const figures = await measureInChild({
    module: 'workqueue',
    trial: 'dedup-add',
    contestant: 'limit',
    conditions,
  })
  assert.ok(figures.rate! > 0)
})

test('a child process that does not know the contestant answers with the reason', async () => {
  const unknown: Measurement = {
    module: 'nowhere',
    trial: 'x',
    contestant: 'y',
    conditions: { quick: true, settings: {} },
  }
  await assert.rejects(measureInChild(unknown), /There is no contestant "y" in nowhere\/x/)
})

test('progress is one rewritten line on a terminal, and one line per step in a log', () => {
  const written: string[] = []
  const out = (isTTY: boolean): NodeJS.WriteStream =>
    ({ isTTY, columns: 20, write: (text: string) => written.push(text) }) as unknown as NodeJS.WriteStream
  {
    using log = createProgress(out(false))
    log.show('step 1', 'a')
    log.show('step 1', 'b')
    log.show('step 2', 'a')
  }
  assert.deepEqual(written.splice(0), ['step 1\n', 'step 2\n'])
  {
    using line = createProgress(out(true))
    line.show('a step with a long name', 'a')
  }
  assert.deepEqual(written, ['\r\x1b[Ka step with a long ', '\r\x1b[K'])
})

// They bring every peer with them, which takes its time on a busy machine.
test('every module loads under its name, and no two of its cases have the same name', {
  timeout: 60_000,
}, async () => {
  for (const name of moduleNames) {
    const module = await findModule(name)
    assert.equal(module!.name, name)
    const cases = module!.trials.flatMap(({ cases }) => cases)
    assert.equal(new Set(cases.map((one) => one.name)).size, cases.length)
    for (const { contestants, cases } of module!.trials) {
      assert.ok('signalbox' in contestants)
      for (const { peers } of cases) for (const peer of peers) assert.ok(peer in contestants, peer)
    }
  }
  assert.equal(await findModule('toString'), undefined)
})

test('an unknown module, trial or option ends with 2 and the list of modules', () => {
  const main = fileURLToPath(new URL('../../bench/main.ts', import.meta.url))
  for (const [argv, said] of [
    [['nowhere'], /There is no module "nowhere"/],
    [['once', 'nothing'], /once has no trial "nothing"\.\nIts trials: /],
    [['--slow'], /Unknown option '--slow'/],
    [[], /^Usage/],
  ] as const) {
    const { status, stderr } = spawnSync(process.execPath, ['--conditions=source', main, ...argv], {
      encoding: 'utf8',
    })
    assert.equal(status, 2)
    assert.match(stderr, said)
    assert.match(stderr, /Modules: workqueue/)
  }
})
