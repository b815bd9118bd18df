import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { check } from '../../prelude.ts'

/** Ids and times differ in every session; everything else must be as the page shows it. */
const withoutIds = (text: string): string =>
  text.replaceAll(/\b0[0-9a-z]{25}\b/g, 'ID').replaceAll(/\b\d{13}\b/g, 'TIME')

check('A complete session', ({ output }) => {
  const page = readFileSync(join(import.meta.dirname, '../../../../docs/wire.md'), 'utf8')
  const [, shown] = /```output\n([\s\S]*?)```/.exec(page)!
  assert.equal(withoutIds(output), withoutIds(shown!))
})
