import assert from 'node:assert/strict'
import { test } from 'vitest'
import {
  copyMark,
  type Migration,
  noSchema,
  noteOf,
  planMigrations,
  readMarks,
  requireSchema,
} from './migration-plan.ts'

const step = (number: number, oldest?: number): Migration => ({
  number,
  name: `step ${number}`,
  statements: [],
  ...(oldest === undefined ? {} : { oldest }),
})

test('a program runs on the schema it knows, and on a newer one that allows it', () => {
  const known = [step(1), step(2)]
  const first = 'step 1'
  const isRunnable = (current: number, oldest?: number) =>
    planMigrations({ current, oldest, first }, known).isRunnable
  assert.deepEqual(
    [0, 1, 2, 3].map((current) => isRunnable(current)),
    [false, false, true, false],
  )
  assert.deepEqual(
    [1, 2, 3].map((oldest) => isRunnable(4, oldest)),
    [true, true, false],
  )
  assert.equal(
    isRunnable(copyMark, 1),
    false,
    'no program works on a database that a copy has not filled yet',
  )
  assert.throws(() => requireSchema(planMigrations({ current: copyMark, oldest: 1, first }, known)), {
    code: 'copy_unfinished',
  })
})

test('the strictest step decides which programs may work on a schema, and on that schema only', () => {
  assert.equal(noteOf([]), '0 of 0')
  assert.equal(noteOf([step(1), step(2, 1)]), '1 of 2')
  assert.equal(noteOf([step(1), step(2, 1), step(3)]), '3 of 3')
  const row = { current: 2, first: 'step 1' }
  assert.deepEqual(readMarks({ ...row, note: '1 of 2' }), { ...row, oldest: 1 })
  for (const note of ['1 of 3', '', null, 'x'])
    assert.deepEqual(readMarks({ ...row, note }), { ...row, oldest: undefined })
})

test('a schema from before the baseline is neither used nor migrated, whatever its number', () => {
  const known = [step(1), step(2), step(3)]
  for (const current of [1, 2, 3, 13, copyMark]) {
    const plan = planMigrations({ current, oldest: 1, first: 'jobs' }, known)
    assert.deepEqual([plan.isBeforeBaseline, plan.isRunnable, plan.steps], [true, false, []])
    assert.throws(() => requireSchema(plan), {
      code: 'schema_outdated',
      message: /made by an unreleased version.*before the baseline.*start with an empty database/,
    })
  }
  assert.equal(planMigrations(noSchema, known).isBeforeBaseline, false)
})
