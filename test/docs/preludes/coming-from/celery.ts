import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { check } from '../../prelude.ts'

copyFileSync(new URL('../../../../examples/worker.py', import.meta.url), 'worker.py')

check('The same program, twice #2', ({ data }) => assert.match(data, /import worker/))
check('The same program, twice #3', ({ output }) => assert.match(output, /sent to ada@example\.org/))
