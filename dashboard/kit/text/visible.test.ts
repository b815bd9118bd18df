import assert from 'node:assert/strict'
import { test } from 'vitest'
import { visible, visibleLines } from './visible.ts'

test('invisible characters become visible, and all other text is unchanged', () => {
  assert.equal(visible('a\u0000b\nc\u007f'), 'a␀b␊c␡')
  assert.equal(visible('safe\u202egpj.exe'), 'safe⟨U+202E⟩gpj.exe')
  assert.equal(visible('\ufeffx\u2066y\u2069'), '⟨U+FEFF⟩x⟨U+2066⟩y⟨U+2069⟩')
  assert.equal(visible('\ud83d'), '⟨U+D83D⟩')
  for (const text of ['<b>&amp;', '中文，标点', 'مرحبا', '👨‍👩‍👧', 'می‌خواهم', 'é'])
    assert.equal(visible(text), text)
})

test('in text of several lines, line breaks and tabs are unchanged', () => {
  assert.equal(visibleLines('a\n\tb\u0007\r\n'), 'a\n\tb␇␍\n')
})
