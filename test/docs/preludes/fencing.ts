import assert from 'node:assert/strict'
import { check } from '../prelude.ts'

check('What the guarded thing has to do', ({ output }) => assert.equal(output.trim(), 'true\nfalse'))
