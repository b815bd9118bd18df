import { type ReactNode, useEffect } from 'react'
import { createStored, type Stored, useStored } from '../shell/stored.ts'
import { kitWords } from '../words/kit.ts'
import { useWords } from '../words/language.tsx'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'

interface Toast {
  readonly id: number
  readonly text: string
  readonly tone: 'good' | 'bad'
}

const shownMs = 6_000
const most = 4
let lastId = 0
const toasts: Stored<readonly Toast[]> = createStored<readonly Toast[]>([])
/** Told to screen readers and not shown. */
const spoken: Stored<string> = createStored('')

/** Says in passing that something was done. */
export function toast(text: string, tone: 'good' | 'bad' = 'good'): void {
  toasts.set([...toasts.get(), { id: ++lastId, text, tone }].slice(-most))
}

/** Announces a text to users of screen readers. */
export function announce(text: string): void {
  spoken.set('')
  requestAnimationFrame(() => spoken.set(text))
}

/** Where they are shown; the shell has one. */
export function Toasts(): ReactNode {
  const say = useWords(kitWords)
  const list = useStored(toasts)
  return (
    <>
      <section className="toasts" aria-label={say('notifications')} aria-live="polite">
        {list.map((one) => (
          <Shown key={one.id} toast={one} close={say('close')} />
        ))}
      </section>
      <div className="hidden" aria-live="polite">
        {useStored(spoken)}
      </div>
    </>
  )
}

function Shown({
  toast: { id, text, tone },
  close,
}: {
  readonly toast: Toast
  readonly close: string
}): ReactNode {
  const drop = () => toasts.set(toasts.get().filter((one) => one.id !== id))
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is of this toast for as long as it is shown
  useEffect(() => {
    const timer = setTimeout(drop, shownMs)
    return () => clearTimeout(timer)
  }, [id])
  return (
    <div className={`toast ${tone}`}>
      <Icon name={tone === 'good' ? 'completed' : 'warning'} />
      <span>{text}</span>
      <Button look="quiet" icon="dead" label={close} onPress={drop}>
        {null}
      </Button>
    </div>
  )
}
