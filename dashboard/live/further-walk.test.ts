import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { WireJob } from '../../src/http/client/index.ts'
import {
  furtherLimits,
  type JobsPage,
  joined,
  mayHaveMore,
  type Walked,
  walkFurther,
} from './further-walk.ts'

const jobOf = (id: string) => ({ id }) as WireJob
const short = (ids: string, cursor: string | null): JobsPage => ({
  ...{ items: Array.from(ids, jobOf), cursor, scanned: 1_000 },
  stopped: cursor === null ? null : 'time',
})
const start: Walked = { items: [], cursor: 'z', scanned: 1_000, isLooking: true }
const idsOf = (items: readonly WireJob[]) => items.map(({ id }) => id).join('')

async function walk(room: number, answers: readonly JobsPage[]) {
  const asked: (readonly [cursor: string, limit: number])[] = []
  const told: Walked[] = []
  const ask = async (cursor: string, limit: number) => {
    asked.push([cursor, limit])
    return answers[asked.length - 1] ?? short('', 'a')
  }
  await walkFurther(start, room, ask, (walked) => told.push(walked), new AbortController().signal)
  return { asked, told, last: told.at(-1)! }
}

test('the page continues a search only if a bound ended the answer and the page has room', () => {
  assert.equal(mayHaveMore(short('', 'x'), 2), true)
  assert.equal(mayHaveMore(short('cb', 'x'), 2), false)
  assert.equal(mayHaveMore(short('c', null), 2), false)
  assert.equal(mayHaveMore({ items: [], cursor: 'x' }, 2), false)
})

test('the search continues until the jobs end, and reports each answer', async () => {
  const { asked, told, last } = await walk(5, [short('', 'm'), short('hg', 'f'), short('b', null)])
  assert.deepEqual(asked, [
    ['z', 5],
    ['m', 5],
    ['f', 3],
  ])
  assert.deepEqual(
    told.map(({ scanned, items, isLooking }) => [scanned, idsOf(items), isLooking]),
    [
      [1_000, '', true],
      [2_000, '', true],
      [3_000, 'hg', true],
      [4_000, 'hgb', false],
    ],
  )
  assert.equal(last.cursor, null)
})

test('the search continues until the page is full', async () => {
  const { asked, last } = await walk(2, [short('h', 'g'), { items: [jobOf('c')], cursor: 'c' }])
  assert.deepEqual([asked.length, idsOf(last.items), last.cursor, last.isLooking], [2, 'hc', 'c', false])
})

test('the search stops at its bound, and can continue from there', async () => {
  const { asked, last } = await walk(2, [])
  assert.equal(asked.length, furtherLimits.pages)
  assert.deepEqual([last.cursor, last.isLooking], ['a', false])
})

test('the newer answer wins for the range of its jobs', () => {
  const known = Array.from('hfdb', jobOf)
  assert.equal(idsOf(joined([], known)), 'hfdb')
  assert.equal(idsOf(joined(Array.from('ihd', jobOf), known)), 'ihdb')
})
