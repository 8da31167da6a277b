#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(){ char*a=aligned_alloc(4096,1<<20),*b=aligned_alloc(4096,1<<20); memset(a,1,1<<20);memset(b,1,1<<20);
int offs[]={0,1,5,16,21,32,37,48,64,69}; 
printf("src\\dst "); for(int j=0;j<10;j++)printf("%6d",offs[j]); puts("");
for(int i=0;i<10;i++){ printf("%6d  ",offs[i]); for(int j=0;j<10;j++){ struct timespec t0,t1; clock_gettime(CLOCK_MONOTONIC,&t0); for(int k=0;k<20000;k++){ memcpy(b+8192+offs[j],a+offs[i],16384); __asm__ volatile(""::"r"(b):"memory");} clock_gettime(CLOCK_MONOTONIC,&t1); double ns=((t1.tv_sec-t0.tv_sec)*1e9+(t1.tv_nsec-t0.tv_nsec))/20000; printf("%6.0f",ns);} puts("");}
}
