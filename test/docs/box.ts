/** `box`, for fragments that do not open one: on the page's `sqlite:signalbox.db`, closed with its workers after each block. */
import { type Box, open } from 'signalbox'
import { around } from './prelude.ts'

export { open } from 'signalbox'

export let box: Box

around(async () => {
  box = await open('sqlite:signalbox.db')
  return () => box.close()
})
