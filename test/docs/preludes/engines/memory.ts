import assert from 'node:assert/strict'
import { check } from '../../prelude.ts'

check('Memory', ({ output }) => assert.equal(output, 'ready\n'))
