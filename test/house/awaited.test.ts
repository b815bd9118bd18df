import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findUnawaited } from './awaited.ts'
import { readTypeScript } from './sources.ts'

test('functions dispose of resources only after their returned promise has settled', async () => {
  assert.deepEqual(findUnawaited(await readTypeScript()), [])
}, 120_000)

/** The findings in a function with this body, beside functions that return promises and one that does not. */
function findIn(body: string): readonly string[] {
  const around = `
    async function work() {}
    const also = async () => 1
    function plain() { return 1 }
    interface Box { open(): Promise<void>; readonly close: () => Promise<void>; name(): string }
    async function it(box: Box, given: () => Promise<void>) { ${body} }`
  return findUnawaited(new Map([['a.ts', around]])).map((found) => found.replace(/^a\.ts:6: await /, ''))
}

test.each([
  ['await using x = y; return work()', 'work()'],
  ['using x = y; if (a) { return also() as Thing }', 'also()'],
  ['try { return box.open() } finally { end() }', 'box.open()'],
  ['try { return box.close() } finally { end() }', 'box.close()'],
  ['try { await work() } catch { return given() } finally { end() }', 'given()'],
  ['try { try { return work() } catch {} } finally { end() }', 'work()'],
  ['using x = y; return a ? 1 : work()', 'work()'],
  ['using x = y; return a ?? work()', 'work()'],
  ['using x = y; return new Promise(begin)', 'new Promise(begin)'],
  ['using x = y; return Promise.all([])', 'Promise.all([])'],
  ['using x = y; return z.then(more)', 'z.then(more)'],
  ['using x = y; const asked = work(); await null; return asked', 'asked'],
])('%s is found', (body, what) => {
  assert.deepEqual(
    findIn(body).map((found) => found.slice(0, what.length)),
    [what],
  )
})

test.each([
  'await using x = y; return await work()',
  'if (a) return work(); using x = y; return plain()',
  '{ using x = y } return work()',
  'try { await null } finally { end() } return work()',
  'try { return work() } catch { end() }',
  'using x = y; return box.name()',
  'using x = y; return () => { return work() }',
  'using x = y; const asked = await work(); return asked',
])('%s is accepted', (body) => {
  assert.deepEqual(findIn(body), [])
})
