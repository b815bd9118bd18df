import assert from 'node:assert/strict'
import { check } from '../prelude.ts'

check('What the resource must do', ({ output }) => assert.equal(output.trim(), 'true\nfalse'))
