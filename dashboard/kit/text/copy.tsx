import { type ReactNode, useState } from 'react'
import { kitWords } from '../../words/kit.ts'
import { useWords } from '../../words/language.tsx'
import { Button } from '../button.tsx'
import { announce } from '../toast.tsx'

export interface CopyProps {
  readonly text: string
  /** The name of the copied value, for screen readers. */
  readonly label?: string
}

/** Puts a text on the clipboard. */
export function Copy({ text, label }: CopyProps): ReactNode {
  const say = useWords(kitWords)
  const [done, setDone] = useState(false)
  const copy = async () => {
    await copyText(text)
    setDone(true)
    announce(say('copied'))
    setTimeout(() => setDone(false), 1_500)
  }
  return (
    <Button
      look="quiet"
      icon={done ? 'completed' : 'copy'}
      label={label ?? say('copy')}
      onPress={() => void copy()}
    >
      {null}
    </Button>
  )
}

/** The clipboard is for pages of https and of this machine; elsewhere the old way has to do. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(text).catch(() => undefined)
    return
  }
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}
