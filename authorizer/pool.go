package authorizer

// ref is the reference of an item in a pool, from 1; none refers to no item.
type ref uint32

const none ref = 0

// pool stores items in slabs, which do not move, and refers to them by numbers. With pointers, Go's
// collector would follow each and wait for memory as often: with half a gigabyte of cards, while
// other cards were swiped, that took a third of both processors. Free items are reused but not
// returned to the heap, because a full cache stays full.
type pool[T any] struct {
	slabs  []*slab[T]
	unused []ref
}

// slabItems is a power of two, because every look-up divides by it.
const slabItems = 64

type slab[T any] [slabItems]T

func (p *pool[T]) at(r ref) *T { return &p.slabs[(r-1)/slabItems][(r-1)%slabItems] }

// take returns an empty item.
func (p *pool[T]) take() (ref, *T) {
	if len(p.unused) == 0 {
		p.slabs = append(p.slabs, &slab[T]{})
		for i, last := ref(0), ref(len(p.slabs)*slabItems); i < slabItems; i++ {
			p.unused = append(p.unused, last-i)
		}
	}
	r := p.unused[len(p.unused)-1]
	p.unused = p.unused[:len(p.unused)-1]
	return r, p.at(r)
}

// free clears an item for reuse.
func (p *pool[T]) free(r ref) {
	var empty T
	*p.at(r) = empty
	p.unused = append(p.unused, r)
}
